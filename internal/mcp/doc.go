// Package mcp is the MCP server of Rigs: the tools with which an agent opens
// rigs and drives them.
//
// Every tool works through package client, and so through the HTTP API and its
// one chokepoint; nothing here decides what an agent may do. The package is
// mounted twice: by `rigs mcp` over standard input and output, and by the server
// at /mcp (see Handler), where the API is called within the process with the
// credentials of whoever called.
//
// # Who acts
//
// What a tool does is an agent's doing. A caller who is a person (the server's
// owner over the socket, a person's token) acts as an agent that is named after
// the MCP client; that person's own rights are used for one thing: when a
// guardrail or an egress request asks, and the MCP client can ask its user
// (elicitation), the user's answer is given in the person's name. An agent's
// token has no such person behind it; its questions wait for the page and the
// command line.
//
// # What a result looks like
//
// Text that begins with what the agent must be told (NOTICE: control was taken
// or given back), then what we say, then what the guest said, inside a fence
// (package fence) and bounded, with a word on how to get the rest. Structured
// content never holds a guest's words. A tool that fails answers with isError
// and {error: {code, message, help, field, holder, approval}}; a failure of a
// tool is never one of the protocol.
//
// # Protocol
//
// Versions with sessions (to 2025-11-25) are spoken. The stateless 2026-07-28 is
// not, because control, notices and questions belong to a session; clients of
// it fall back.
package mcp
