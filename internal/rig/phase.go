package rig

// Phase is where a rig stands in its life. Transitions is the only authority
// on how it moves; nothing else decides.
type Phase string

// The phases of SPEC §12.
const (
	Provisioning Phase = "provisioning"
	Ready        Phase = "ready"
	Parked       Phase = "parked"
	Closing      Phase = "closing"
	Closed       Phase = "closed"
	Failed       Phase = "failed"
)

// transitions[from] lists where a rig may go next. Closed is the end. A failed
// rig has no machine any more, but stays listed, with its reason, until it is
// closed.
var transitions = map[Phase][]Phase{
	Provisioning: {Ready, Failed, Closing},
	Ready:        {Parked, Failed, Closing},
	Parked:       {Ready, Failed, Closing},
	Failed:       {Closing},
	Closing:      {Closed},
	Closed:       {},
}

// CanBecome reports whether the table allows the step from p to next.
func (p Phase) CanBecome(next Phase) bool {
	for _, t := range transitions[p] {
		if t == next {
			return true
		}
	}
	return false
}

// Live reports whether a rig in this phase occupies its place in a space: its
// machine exists or is being made.
func (p Phase) Live() bool { return p == Provisioning || p == Ready || p == Parked }

// Valid reports whether p is one of the phases.
func (p Phase) Valid() bool { _, ok := transitions[p]; return ok }

// CloseReason says why a rig was closed.
type CloseReason string

// The close reasons of SPEC §12.
const (
	Requested         CloseReason = "requested"
	IdleTimeout       CloseReason = "idleTimeout"
	TTLExpired        CloseReason = "ttlExpired"
	MemoryEvicted     CloseReason = "memoryEvicted"
	ConversationEnded CloseReason = "conversationEnded"
	WorkspaceGone     CloseReason = "workspaceGone"
	ServerShutdown    CloseReason = "serverShutdown"
	BackendFailure    CloseReason = "backendFailure"
)
