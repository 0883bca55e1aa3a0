package vm_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

func TestActions(t *testing.T) {
	k := clone(t, nil)
	t.Run("a command's output, errors and status", func(t *testing.T) {
		var out, errs bytes.Buffer
		st, err := k.Run(t.Context(), "exec", guestapi.ExecRequest{Shell: "echo out; echo err >&2; exit 7"}, guestapi.StreamIO{Stdout: &out, Stderr: &errs})
		if err != nil || st.Code != 7 || out.String() != "out\n" || errs.String() != "err\n" {
			t.Errorf("%+v, %v, %q, %q", st, err, out.String(), errs.String())
		}
	})
	t.Run("input and megabytes", func(t *testing.T) {
		want := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
		var out bytes.Buffer
		st, err := k.Run(t.Context(), "exec", guestapi.ExecRequest{Argv: []string{"cat"}, Stdin: true}, guestapi.StreamIO{Stdin: bytes.NewReader(want), Stdout: &out})
		if err != nil || st.Code != 0 || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%+v, %v, %d bytes of %d", st, err, out.Len(), len(want))
		}
	})
	t.Run("collected", func(t *testing.T) {
		res, err := k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: "cat; yes | head -c 5000"}, Input: []byte("in"), Limit: 100})
		if err != nil || res.Code != 0 || len(res.Stdout) != 100 || !res.StdoutTruncated || !strings.HasPrefix(string(res.Stdout), "iny\n") || res.StderrTruncated {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("a refusal by the guest", func(t *testing.T) {
		_, err := k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Argv: []string{"true"}, Shell: "true"}})
		if rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("%v", err)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		in, feed := io.Pipe()
		defer feed.Close()
		var out bytes.Buffer
		go func() { _, _ = io.WriteString(feed, "stty size; exit 3\n") }()
		st, err := k.Run(t.Context(), "terminal", guestapi.TerminalRequest{Session: "main", Size: guestapi.Size{Cols: 77, Rows: 11}}, guestapi.StreamIO{Stdin: in, Stdout: &out})
		if err != nil || st.Code != 3 || !strings.Contains(out.String(), "11 77") {
			t.Errorf("%+v, %v, %q", st, err, out.String())
		}
	})
	t.Run("files", func(t *testing.T) {
		var in bytes.Buffer
		w := tar.NewWriter(&in)
		body := strings.Repeat("content", 1000)
		if err := w.WriteHeader(&tar.Header{Name: "a/b", Mode: 0o640, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, body)
		w.Close()
		if err := k.Do("PUT", "/v1/files?path=dir", &in, func(io.Reader) error { return nil }); err != nil {
			t.Fatal(err)
		}
		var fi guestapi.FileInfo
		if err := k.Call("GET", "/v1/stat?path=dir/a/b", nil, &fi); err != nil || fi.Size != int64(len(body)) || fi.Path != guestapi.Home+"/dir/a/b" {
			t.Errorf("%+v, %v", fi, err)
		}
		found := false
		err := k.Do("GET", "/v1/files?path=dir/a/b", nil, func(r io.Reader) error {
			tr := tar.NewReader(r)
			for {
				h, err := tr.Next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				b, err := io.ReadAll(tr)
				if err != nil {
					return err
				}
				found = found || h.Name == "b" && string(b) == body
			}
		})
		if err != nil || !found {
			t.Errorf("file out: found %v, %v", found, err)
		}
		for _, req := range []string{"/v1/files?path=none", "/v1/stat?path=none"} {
			if err := k.Do("GET", req, nil, func(io.Reader) error { return nil }); rig.CodeOf(err) != rig.CodeNotFound {
				t.Errorf("%s: %v", req, err)
			}
		}
		if err := k.Do("GET", "/v1/stat?path=", nil, func(io.Reader) error { return nil }); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("no path: %v", err)
		}
	})
	t.Run("egress", func(t *testing.T) {
		var rules keeperapi.EgressRules
		if err := k.Call("POST", "/v1/egress/allow", keeperapi.EgressChange{Pattern: "example.com"}, &rules); err != nil || len(rules.Patterns) != 1 {
			t.Errorf("%+v, %v", rules, err)
		}
		if err := k.Call("POST", "/v1/egress/deny", keeperapi.EgressChange{Pattern: "example.com"}, &rules); err != nil || len(rules.Patterns) != 0 {
			t.Errorf("%+v, %v", rules, err)
		}
		res, err := k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: "curl -sS --max-time 20 http://denied.example"}})
		if err != nil || res.Code == 0 {
			t.Errorf("%+v, %v", res, err)
		}
		e := k.Event("denial in the log", func(e keeperapi.Event) bool { return e.Egress != nil && e.Egress.Verdict == "deny" })
		var log keeperapi.EgressLog
		if err := k.Call("GET", "/v1/egress/log", nil, &log); err != nil || len(log.Events) == 0 || e.Egress.Seq == 0 {
			t.Errorf("%+v, %v", log, err)
		}
	})
	if st := k.Status(); len(st.Streams) != 0 {
		t.Errorf("streams are left: %v", st.Streams)
	}
}
