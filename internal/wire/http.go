package wire

import (
	"encoding/json"
	"net/http"

	"rigs/internal/rig"
)

// WriteProblem answers with err as an RFC 9457 problem.
func WriteProblem(w http.ResponseWriter, err error) {
	p := rig.AsProblem(err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.GetStatus())
	_ = json.NewEncoder(w).Encode(p) // the peer may be gone
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the peer may be gone
}
