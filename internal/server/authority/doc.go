// Package authority decides. Begin is the one function through which every
// action of every interface passes before it reaches a rig:
//
//	who      has the caller a role in the workspace that suffices?
//	guardrail  for agents: allow, deny, or ask a person and wait
//	control  does somebody else hold the controls?
//	audit    the decision is written down, whatever it is
//
// Only what Begin returns, a Grant, opens the way to a keeper: package rigs asks
// for one wherever something is changed or run in a rig. A Grant's End writes
// down how the action ended.
//
// # Promises
//
// What is not written down does not happen: an audit log that cannot be written
// refuses the action, unless that only takes something away (Action.Ends). Rules are read from memory, so that deciding costs
// microseconds however many rigs there are. Guardrails bind agents; what people
// may do follows from their role alone.
package authority
