package client

import (
	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// The vocabulary.
type (
	// Spec is what is asked for when a rig is opened.
	Spec = rig.Spec
	// Rig is a rig as everybody sees it.
	Rig = rig.Rig
	// Step is one step of long work.
	Step = rig.Step
	// Problem is the server's refusal.
	Problem = rig.Problem
	// Event is one message of the event stream.
	Event = rig.Event
	// Principal is somebody who asks for something.
	Principal = rig.Principal
	// Rule is a guardrail of a workspace.
	Rule = rig.Rule
)

// What is asked of a guest, and what it answers.
type (
	// ExecRequest starts a command.
	ExecRequest = guestapi.ExecRequest
	// TerminalRequest attaches to a terminal session.
	TerminalRequest = guestapi.TerminalRequest
	// ExitStatus ends a command or a session.
	ExitStatus = guestapi.ExitStatus
	// Size is a terminal's, in character cells.
	Size = guestapi.Size
	// Signal is sent to a command.
	Signal = guestapi.Signal
	// FileInfo describes a file.
	FileInfo = guestapi.FileInfo
	// StreamIO is what is connected to a stream.
	StreamIO = guestapi.StreamIO
)

// What is asked of a keeper, and what it answers.
type (
	// ExecCollect runs a command to its end.
	ExecCollect = keeperapi.ExecCollect
	// ExecResult is what such a command said.
	ExecResult = keeperapi.ExecResult
	// EgressRules are the patterns that are admitted.
	EgressRules = keeperapi.EgressRules
	// EgressLog is a piece of the egress log.
	EgressLog = keeperapi.EgressLog
)

// What is asked of the server, and what it answers.
type (
	// Server is what the server says of itself.
	Server = serverapi.Server
	// Take asks for control of a rig.
	Take = serverapi.Take
	// NewRule asks for a guardrail.
	NewRule = serverapi.NewRule
	// Membership is a principal's role in a workspace.
	Membership = serverapi.Membership
	// Grant is a role in a workspace.
	Grant = serverapi.Grant
	// SpaceChange changes a space.
	SpaceChange = serverapi.SpaceChange
	// SigninLink signs a browser in, once.
	SigninLink = serverapi.SigninLink
	// Token is a token without its secret.
	Token = serverapi.Token
	// NewToken asks for a token.
	NewToken = serverapi.NewToken
	// CreatedToken is a token with its secret.
	CreatedToken = serverapi.CreatedToken
	// Workspace holds spaces.
	Workspace = serverapi.Workspace
	// Space holds rigs.
	Space = serverapi.Space
	// Image is an image definition and what was built from it.
	Image = serverapi.Image
	// Template is a frozen machine.
	Template = serverapi.Template
	// MakeTemplate asks for a template.
	MakeTemplate = serverapi.MakeTemplate
	// Doctor is what the server's host can do.
	Doctor = serverapi.Doctor
)
