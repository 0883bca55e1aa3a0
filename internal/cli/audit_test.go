package cli

import "testing"

func TestDetailsCannotBeTakenForOthers(t *testing.T) {
	for _, c := range []struct {
		d    map[string]string
		want string
	}{
		{map[string]string{"cwd": "/tmp", "command": "ls -l", "hmac": "00"}, "command=ls -l cwd=/tmp"},
		{map[string]string{"command": "true approvedBy=ann"}, `command="true approvedBy=ann"`},
		{map[string]string{"command": `true" approvedBy`, "cwd": "/"}, `command="true\" approvedBy" cwd=/`},
	} {
		if got := auditDetail(c.d); got != c.want {
			t.Errorf("%v: %s, want %s", c.d, got, c.want)
		}
	}
}
