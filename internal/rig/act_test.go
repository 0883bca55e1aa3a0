package rig

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAnActionThatCannotBeNamesItsField(t *testing.T) {
	for in, field := range map[string]string{
		``:                                                                   "",
		`[]`:                                                                 "",
		`{"verb":"screen"} {}`:                                               "",
		`{"verb":"screen"`:                                                   "",
		"{\"verb\":\"screen\xff\"}":                                          "",
		`{}`:                                                                 "verb",
		`{"verb":7}`:                                                         "verb",
		`{"verb":"click"}`:                                                   "verb",
		`{"verb":"Exec","shell":"x"}`:                                        "verb",
		`{"verb":"screen","verb":"exec"}`:                                    "verb",
		`{"verb":"screen","session":"A"}`:                                    "session",
		`{"verb":"screen","session":7}`:                                      "session",
		`{"verb":"screen","session":null}`:                                   "session",
		`{"verb":"screen","Session":"main"}`:                                 "Session",
		`{"verb":"exec"}`:                                                    "argv",
		`{"verb":"exec","argv":[]}`:                                          "argv",
		`{"verb":"exec","argv":[""]}`:                                        "argv",
		`{"verb":"exec","argv":"ls"}`:                                        "argv",
		`{"verb":"exec","argv":["ls",7]}`:                                    "argv",
		`{"verb":"exec","argv":["a\u0000"]}`:                                 "argv",
		`{"verb":"exec","argv":["ls"],"shell":"ls"}`:                         "shell",
		`{"verb":"exec","shell":"ls","env":["A"]}`:                           "env",
		`{"verb":"exec","shell":"ls","env":["=A"]}`:                          "env",
		`{"verb":"exec","shell":"ls","timeout":-1}`:                          "timeout",
		`{"verb":"exec","shell":"ls","timeout":"9"}`:                         "timeout",
		`{"verb":"exec","shell":"ls","timeout":99999}`:                       "timeout",
		`{"verb":"exec","shell":"ls","root":true}`:                           "root",
		`{"verb":"exec","shell":"ls","cwd":"a\u0000"}`:                       "cwd",
		`{"verb":"read_file"}`:                                               "path",
		`{"verb":"read_file","path":""}`:                                     "path",
		`{"verb":"read_file","path":"x","offset":-1}`:                        "offset",
		`{"verb":"read_file","path":"x","offset":1.5}`:                       "offset",
		`{"verb":"read_file","path":"x","limit":2000000}`:                    "limit",
		`{"verb":"read_file","path":"` + repeat("x", 5000) + `"}`:            "path",
		`{"verb":"write_file","path":"x"}`:                                   "content",
		`{"verb":"write_file","content":"x"}`:                                "path",
		`{"verb":"write_file","path":"x","content":"","mode":"9"}`:           "mode",
		`{"verb":"write_file","path":"x","content":"","mode":"4755"}`:        "mode",
		`{"verb":"write_file","path":"x","content":"","mode":644}`:           "mode",
		`{"verb":"write_file","path":"x","content":"","encoding":"utf-8"}`:   "encoding",
		`{"verb":"write_file","path":"x","content":"a","encoding":"base64"}`: "content",
		`{"verb":"write_file","path":"x","content":"` + repeat("x", MaxActContent+1) + `"}`: "content",
		`{"verb":"list_dir","limit":-1}`: "limit",
	} {
		a, err := ParseAction(Terminal, []byte(in))
		if err == nil {
			t.Errorf("%.60s passes: %+v", in, a)
			continue
		}
		if p := AsProblem(err); p.Code != CodeInvalidRequest || p.Field != field || p.Detail == "" {
			t.Errorf("%.60s: %s, field %q instead of %q: %s", in, p.Code, p.Field, field, p.Detail)
		}
	}
	if _, err := ParseAction(Mac, []byte(`{"verb":"exec"}`)); err == nil || AsProblem(err).Field != "verb" {
		t.Errorf("%v", err)
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func TestAnActionIsReadAsItIsWritten(t *testing.T) {
	for in, want := range map[string]Args{
		`{"verb":"exec","argv":["ls","-l"],"cwd":"/","env":["A=b=c"],"stdin":"x","timeout":0.5}`: &ExecArgs{
			Argv: []string{"ls", "-l"}, Cwd: "/", Env: []string{"A=b=c"}, Stdin: "x", Timeout: 0.5},
		`{"verb":"read_file","path":"a\nb","offset":9007199254740993,"limit":1}`:    &ReadFileArgs{Path: "a\nb", Offset: 9007199254740993, Limit: 1},
		`{"verb":"write_file","path":"x","content":"","mode":"0755","append":true}`: &WriteFileArgs{Path: "x", Mode: "0755", Append: true},
		`{"verb":"list_dir"}`:                 &ListDirArgs{},
		`{"verb":"screen","session":"build"}`: &ScreenArgs{Session: "build"},
	} {
		a, err := ParseAction(Terminal, []byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if d := cmp.Diff(want, a.Args, cmpopts.IgnoreUnexported(WriteFileArgs{})); d != "" {
			t.Errorf("%s: %s", in, d)
		}
		if b, err := json.Marshal(a); err != nil || string(b) != in {
			t.Errorf("%s is written %s, %v", in, b, err)
		}
	}
	a, err := ParseAction(Terminal, []byte(`{"verb":"write_file","path":"x","content":"AP8=","encoding":"base64","mode":"640"}`))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := a.Args.(*WriteFileArgs)
	if m, err := w.Perm(); err != nil || m != 0o640 || string(w.Data()) != "\x00\xff" {
		t.Errorf("%o %q %v", m, w.Data(), err)
	}
}

func TestEveryVerbIsWholeAndItsExampleWorks(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Verbs {
		key := string(v.Surface) + " " + v.Name
		if seen[key] || v.Class == "" || v.Summary == "" || v.New == nil {
			t.Errorf("%s: %+v", key, v)
		}
		seen[key] = true
		if _, err := v.Parse([]byte(v.Example)); err != nil {
			t.Errorf("%s: its example: %v", key, err)
		}
		for _, f := range v.Fields() {
			if f.Kind == "" || f.Doc == "" {
				t.Errorf("%s: %+v", key, f)
			}
		}
	}
}

func FuzzParseAction(f *testing.F) {
	for _, v := range Verbs {
		f.Add([]byte(`{"verb":"` + v.Name + `",` + v.Example[1:]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAction(Terminal, b)
		if err != nil {
			if p := AsProblem(err); p.Code != CodeInvalidRequest {
				t.Errorf("%s: %v", p.Code, err)
			}
			return
		}
		out, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseAction(Terminal, out); err != nil || !cmp.Equal(again.Args, a.Args, cmpopts.IgnoreUnexported(WriteFileArgs{}), cmpopts.EquateEmpty()) {
			t.Errorf("%s was written %s: %v", b, out, err)
		}
	})
}
