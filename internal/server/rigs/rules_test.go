package rigs

import (
	"slices"
	"testing"
	"time"

	"rigs/internal/rig"
)

func TestWhatTimeAsksFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	later := now.Add(time.Hour)
	for _, x := range []struct {
		name string
		s    standing
		want action
	}{
		{"used just now", standing{phase: rig.Ready, lastUse: now, expiresAt: later}, nothing},
		{"idle", standing{phase: rig.Ready, lastUse: ago(60), expiresAt: later}, park},
		{"almost idle", standing{phase: rig.Ready, lastUse: ago(59), expiresAt: later}, nothing},
		{"idle and in use", standing{phase: rig.Ready, inUse: true, lastUse: ago(9000), expiresAt: later}, nothing},
		{"parked", standing{phase: rig.Parked, lastUse: ago(119), expiresAt: later}, nothing},
		{"parked for long", standing{phase: rig.Parked, lastUse: ago(120), expiresAt: later}, closeIdle},
		{"idle for long, never parked", standing{phase: rig.Ready, lastUse: ago(120), expiresAt: later}, closeIdle},
		{"provisioning for long", standing{phase: rig.Provisioning, lastUse: ago(9000), expiresAt: later}, nothing},
		{"expired", standing{phase: rig.Ready, lastUse: now, expiresAt: now}, closeTTL},
		{"expired in use", standing{phase: rig.Ready, inUse: true, lastUse: now, expiresAt: ago(1)}, closeTTL},
		{"expired while provisioning", standing{phase: rig.Provisioning, lastUse: now, expiresAt: ago(1)}, closeTTL},
		{"expired while parked", standing{phase: rig.Parked, lastUse: now, expiresAt: ago(1)}, closeTTL},
		{"failed", standing{phase: rig.Failed, lastUse: ago(9000), expiresAt: ago(1)}, nothing},
		{"closing", standing{phase: rig.Closing, lastUse: ago(9000), expiresAt: ago(1)}, nothing},
		{"a clock that went back", standing{phase: rig.Ready, lastUse: later, expiresAt: later}, nothing},
	} {
		x.s.idle = time.Minute
		if got := due(x.s, now); got != x.want {
			t.Errorf("%s: %d, want %d", x.name, got, x.want)
		}
	}
}

func TestWhoHasToGo(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	a, b, c := tenant{"a", 30, false, at(3)}, tenant{"b", 20, false, at(1)}, tenant{"c", 40, true, at(0)}
	for _, x := range []struct {
		need, budget int64
		out          []string
		ok           bool
	}{
		{10, 100, nil, true},
		{11, 100, []string{"b"}, true},
		{30, 100, []string{"b"}, true},
		{31, 100, []string{"b", "a"}, true},
		{60, 100, []string{"b", "a"}, true},
		{61, 100, []string{"b", "a"}, false},
	} {
		out, ok := evict([]tenant{a, b, c}, x.need, x.budget)
		if ok != x.ok || !slices.Equal(out, x.out) {
			t.Errorf("%+v: %v %v", x, out, ok)
		}
	}
}

func TestReferences(t *testing.T) {
	r := func(id, ws, space string, s rig.Surface, e rig.Engine, p rig.Phase) rig.Rig {
		return rig.Rig{ID: id, Workspace: ws, Space: space, Surface: s, Engine: e, Phase: p}
	}
	all := []rig.Rig{
		r("aaaaaaaaaa", "default", "one", rig.Terminal, "", rig.Failed),
		r("aaabbbbbbb", "default", "one", rig.Terminal, "", rig.Ready),
		r("cccccccccc", "default", "one", rig.Terminal, "", rig.Parked),
		r("dddddddddd", "other", "one", rig.Terminal, "", rig.Ready),
		r("eeeeeeeeee", "default", "two", rig.Browser, rig.Chromium, rig.Ready),
		r("ffffffffff", "default", "two", rig.Browser, rig.Firefox, rig.Ready),
		r("gggggggggg", "default", "three", rig.Terminal, "", rig.Failed),
		r("hhhhhhhhhh", "default", "three", rig.Terminal, "", rig.Failed),
	}
	for _, x := range []struct {
		ref, ws, id string
		code        rig.Code
	}{
		{"aaaaaaaaaa", "", "aaaaaaaaaa", ""},
		{"aaaa", "", "aaaaaaaaaa", ""},
		{"aaa", "", "", rig.CodeAmbiguous},
		{"ccc", "other", "cccccccccc", ""}, // an id needs no workspace
		{"zzz", "", "", rig.CodeNotFound},
		{"aa", "", "", rig.CodeInvalidRequest},
		{"AAA", "", "", rig.CodeInvalidRequest},
		{"aaaaaaaaaaa", "", "", rig.CodeInvalidRequest},
		{"", "", "", rig.CodeInvalidRequest},
		{"one/terminal", "", "aaabbbbbbb", ""},
		{"one/terminal", "other", "dddddddddd", ""},
		{"two/browser", "", "", rig.CodeAmbiguous},
		{"two/browser:firefox", "", "ffffffffff", ""},
		{"two/browser:webkit", "", "", rig.CodeNotFound},
		{"three/terminal", "", "hhhhhhhhhh", ""}, // none is live: the newest that failed
		{"four/terminal", "", "", rig.CodeNotFound},
		{"one/toaster", "", "", rig.CodeInvalidRequest},
		{"../terminal", "", "", rig.CodeInvalidRequest},
	} {
		rf, err := parseRef(x.ref)
		id := ""
		if err == nil {
			id, err = match(all, rf, x.ws)
		}
		if id != x.id || rig.CodeOf(err) != x.code {
			t.Errorf("%q in %q: %q %v, want %q %s", x.ref, x.ws, id, err, x.id, x.code)
		}
	}
}
