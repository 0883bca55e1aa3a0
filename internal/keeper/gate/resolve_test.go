package gate

import "testing"

// A name of one label that stands in the host's hosts file is found with its dot.
func TestHostsFileWithDot(t *testing.T) {
	found, err := hostResolver{}.LookupNetIP(t.Context(), "ip", "localhost.")
	if err != nil || len(found) == 0 || !found[0].Unmap().IsLoopback() {
		t.Errorf("localhost: %v, %v", found, err)
	}
}
