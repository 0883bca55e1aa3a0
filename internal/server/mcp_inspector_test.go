package server_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rigs/internal/rig"
)

// The protocol project's own inspector, a client in another language, speaks with
// both mounts. It is installed by 'npm ci --prefix test/mcp'.
func TestTheProtocolsInspector(t *testing.T) {
	inspector, err := filepath.Abs("../../test/mcp/node_modules/.bin/mcp-inspector")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(inspector); err != nil {
		t.Skip("not installed: npm ci --prefix test/mcp")
	}
	s := start(t, home(t), nil)
	bin := buildRigs(t)
	person := s.token(t, "person", rig.Person)
	for name, server := range map[string][]string{
		"stdio": {"-e", "RIGS_SERVER=" + layout(t, s.home).ServerSocket(), bin, "mcp"},
		"http":  {s.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + person},
	} {
		t.Run(name, func(t *testing.T) {
			inspect := func(out any, args ...string) {
				t.Helper()
				ctx := ctxOf(t)
				cmd := exec.CommandContext(ctx, inspector, append(append([]string{"--cli"}, server...), args...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				b, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %v: %s %s", args, err, b, stderr.String())
				}
				if err := json.Unmarshal(b, out); err != nil {
					t.Fatalf("%v: %v: %s", args, err, b)
				}
			}
			var list struct{ Tools []struct{ Name string } }
			inspect(&list, "--method", "tools/list")
			if len(list.Tools) < 5 {
				t.Errorf("%+v", list)
			}
			type result struct {
				IsError           bool
				Content           []struct{ Type, Text string }
				StructuredContent map[string]any
			}
			call := func(tool string, args ...string) (r result) {
				t.Helper()
				all := []string{"--method", "tools/call", "--tool-name", tool}
				for _, a := range args {
					all = append(all, "--tool-arg", a)
				}
				inspect(&r, all...)
				return r
			}
			if r := call("rig_open", "space=i-"+name); r.IsError || r.StructuredContent["created"] != true {
				t.Errorf("rig_open: %+v", r)
			}
			if r := call("terminal_use", "rig=i-"+name+"/terminal", "action=exec", "shell=echo hi"); r.IsError || len(r.Content) != 2 || !strings.Contains(r.Content[1].Text, "\necho hi\n<<<END-") {
				t.Errorf("terminal_use: %+v", r)
			}
			if r := call("rig_close", "rig=none"); !r.IsError || r.StructuredContent["error"].(map[string]any)["code"] != string(rig.CodeNotFound) {
				t.Errorf("rig_close: %+v", r)
			}
		})
	}
}
