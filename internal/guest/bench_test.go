//go:build linux

package guest

import (
	"context"
	"testing"

	"rigs/internal/guestapi"
)

// BenchmarkExecOutput is the path of a command's output without a machine in
// between.
func BenchmarkExecOutput(b *testing.B) {
	h := start(b)
	const size = 100 << 20
	b.SetBytes(size)
	for b.Loop() {
		var n counter
		_, err := guestapi.RunStream(context.Background(), h.dial(b, "/v1/exec"), guestapi.ExecRequest{Shell: "head -c 100M /dev/zero"}, guestapi.StreamIO{Stdout: &n})
		if err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkExecTrue is the shortest command.
func BenchmarkExecTrue(b *testing.B) {
	h := start(b)
	for b.Loop() {
		if r, err := h.run(b, guestapi.ExecRequest{Argv: []string{"true"}}, ""); err != nil || r.Code != 0 {
			b.Fatal(r, err)
		}
	}
}
