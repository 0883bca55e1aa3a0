package client

import (
	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// The shapes of the API. They are the server's own; see docs/api.md.
type (
	Spec      = rig.Spec
	Rig       = rig.Rig
	Step      = rig.Step
	Problem   = rig.Problem
	Event     = rig.Event
	Principal = rig.Principal

	ExecRequest     = guestapi.ExecRequest
	TerminalRequest = guestapi.TerminalRequest
	ExitStatus      = guestapi.ExitStatus
	Size            = guestapi.Size
	Signal          = guestapi.Signal
	FileInfo        = guestapi.FileInfo
	StreamIO        = guestapi.StreamIO

	ExecCollect = keeperapi.ExecCollect
	ExecResult  = keeperapi.ExecResult
	EgressRules = keeperapi.EgressRules
	EgressLog   = keeperapi.EgressLog

	Server       = serverapi.Server
	SigninLink   = serverapi.SigninLink
	Token        = serverapi.Token
	NewToken     = serverapi.NewToken
	CreatedToken = serverapi.CreatedToken
	Workspace    = serverapi.Workspace
	Space        = serverapi.Space
	Image        = serverapi.Image
	Template     = serverapi.Template
	MakeTemplate = serverapi.MakeTemplate
	Doctor       = serverapi.Doctor
)
