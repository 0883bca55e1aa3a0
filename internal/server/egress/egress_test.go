package egress

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rigs/internal/rig"
)

// bound is how long anything may take before a test gives up on it.
const bound = 30 * time.Second

const id, other = "aaaaaaaaaa", "bbbbbbbbbb"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type counts struct {
	mu    sync.Mutex
	lines map[string]int
	count int64
}

func (c *counts) EgressEvent(e rig.EgressEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += max(1, e.Count)
}

func (c *counts) EgressLine(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[outcome]++
}

func (c *counts) line(outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[outcome]
}

type fixture struct {
	*Log
	t *testing.T
	*counts
}

func openLog(t *testing.T, dir string, maxFile, maxTotal int64) *fixture {
	t.Helper()
	c := &counts{lines: map[string]int{}}
	l, err := Open(Options{Dir: dir, Metrics: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }, MaxFile: maxFile, MaxTotal: maxTotal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return &fixture{l, t, c}
}

func event(seq int64) rig.EgressEvent {
	return rig.EgressEvent{Seq: seq, Time: noon, Verdict: "deny", Reason: "notAdmitted", Protocol: "tcp", Host: "evil.test", Port: 443}
}

func (f *fixture) add(rigID string, from, to int64) {
	f.t.Helper()
	for n := from; n <= to; n++ {
		if _, ok := f.Append(rigID, event(n)); !ok {
			f.t.Fatalf("event %d was not believed", n)
		}
	}
}

// read returns the numbers of all that is kept, and how many are lost.
func (f *fixture) read(rigID string) (seqs []int64, lost int64) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), bound)
	defer cancel()
	after := int64(0)
	for {
		p, err := f.After(ctx, rigID, after)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(p.Events) == 0 {
			return seqs, lost
		}
		lost += p.Lost
		if p.Events[0].Seq != after+p.Lost+1 {
			f.t.Errorf("after %d and %d lost comes %d", after, p.Lost, p.Events[0].Seq)
		}
		for _, e := range p.Events {
			seqs = append(seqs, e.Seq)
			after = e.Seq
		}
	}
}

func TestLogIsKeptForClosedRigsAndAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	f := openLog(t, dir, 0, 0)
	f.add(id, 1, 2*maxPage+5)
	f.add(other, 1, 3)
	f.Close(id)
	if seqs, lost := f.read(id); len(seqs) != 2*maxPage+5 || lost != 0 {
		t.Errorf("%d events, %d lost", len(seqs), lost)
	}
	f.Stop()
	f = openLog(t, dir, 0, 0)
	if seqs, lost := f.read(id); len(seqs) != 2*maxPage+5 || lost != 0 {
		t.Errorf("after a restart: %d events, %d lost", len(seqs), lost)
	}
	p, err := f.After(t.Context(), other, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Events) != 1 || p.Events[0].Host != "evil.test" || p.Events[0].Seq != 3 {
		t.Errorf("events %+v", p.Events)
	}
	if seqs, _ := f.read("cccccccccc"); len(seqs) != 0 {
		t.Errorf("a rig without a log has %v", seqs)
	}
	if _, err := f.After(t.Context(), "../../etc", 0); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("error %v", err)
	}
}

func TestRotationKeepsTheNewestAndSaysWhatIsLost(t *testing.T) {
	dir := t.TempDir()
	const size = 2000
	f := openLog(t, dir, size, 0)
	f.add(id, 1, 100)
	seqs, lost := f.read(id)
	if len(seqs) == 0 || seqs[len(seqs)-1] != 100 || lost == 0 || int64(len(seqs))+lost != 100 {
		t.Errorf("kept %v, lost %d of 100", seqs, lost)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, e := range files {
		if fi, err := e.Info(); err != nil || fi.Size() > size {
			t.Errorf("%s has %d bytes: %v", e.Name(), fi.Size(), err)
		}
	}
}

func TestAllLogsTogetherAreBounded(t *testing.T) {
	dir := t.TempDir()
	const size, total = 1000, 8000
	f := openLog(t, dir, size, total)
	var ids []string
	for c := 'a'; c <= 'z'; c++ {
		n := strings.Repeat(string(c), rig.IDLen)
		ids = append(ids, n)
		f.add(n, 1, 20)
		f.Close(n)
	}
	last, lost := f.read(ids[len(ids)-1])
	if len(last) == 0 || int64(len(last))+lost != 20 {
		t.Errorf("the newest log has %v", last)
	}
	if first, _ := f.read(ids[0]); len(first) != 0 {
		t.Errorf("the oldest log is kept: %v", first)
	}
	var sum int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range files {
		if fi, err := e.Info(); err == nil {
			sum += fi.Size()
		}
	}
	if sum > total {
		t.Errorf("logs have %d bytes, over %d", sum, total)
	}
}

func TestTornAndForeignLinesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	f := openLog(t, dir, 0, 0)
	f.add(id, 1, 3)
	f.Stop()
	path := filepath.Join(dir, id+".jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	for name, c := range map[string]struct {
		content string
		want    []int64
		lost    int64
	}{
		"a torn last line":      {lines[0] + lines[1] + lines[2][:20], []int64{1, 2}, 0},
		"a torn line within":    {lines[0] + lines[1][:20] + "\n" + lines[2], []int64{1, 3}, 1},
		"a line without an end": {strings.TrimSuffix(lines[0]+lines[1], "\n"), []int64{1}, 0},
		"garbage":               {"\x00\xff\n" + lines[0] + "{}\n\n" + strings.Repeat("x", 3*maxLine) + "\n" + lines[1], []int64{1, 2}, 0},
		"unknown fields":        {lines[0] + `{"seq":2,"evil":true}` + "\n", []int64{1}, 0},
		"a line that repeats":   {lines[0] + lines[1] + lines[0] + lines[2], []int64{1, 2, 3}, 0},
		"only an endless line":  {strings.Repeat("x", 3*maxLine), nil, 0},
		"nothing":               {"", nil, 0},
		"an impossible number":  {`{"seq":99999999999999999999,"x":1}` + "\n" + lines[0], []int64{1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			g := openLog(t, dir, 0, 0)
			seqs, lost := g.read(id)
			if len(seqs) != len(c.want) || lost != c.lost {
				t.Fatalf("kept %v and lost %d, want %v and %d", seqs, lost, c.want, c.lost)
			}
			for i := range seqs {
				if seqs[i] != c.want[i] {
					t.Errorf("kept %v, want %v", seqs, c.want)
				}
			}
			// What is written after a torn line is whole.
			if _, ok := g.Append(id, event(1000)); !ok {
				t.Fatal("not believed")
			}
			if seqs, _ := g.read(id); len(seqs) == 0 || seqs[len(seqs)-1] != 1000 {
				t.Errorf("the line after is gone: %v", seqs)
			}
		})
	}
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	f := openLog(t, dir, 0, 0)
	f.add(id, 1, 1)
	f.read(id)
	blocked := filepath.Join(dir, other+".jsonl")
	if err := os.Mkdir(blocked, 0o700); err != nil { // opening it for writing fails, for root as well
		t.Fatal(err)
	}
	f.add(other, 1, 2)
	f.add(id, 2, 2)
	if seqs, _ := f.read(id); len(seqs) != 2 {
		t.Errorf("another log has %v", seqs)
	}
	if n := f.line("dropped"); n != 2 {
		t.Errorf("%d lines are counted as dropped, want 2", n)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	f.add(other, 3, 3)
	if seqs, lost := f.read(other); len(seqs) != 1 || lost != 2 {
		t.Errorf("when it can be written again: %v, %d lost", seqs, lost)
	}
}

// A symbolic link in the place of a log must not be followed.
func TestPlantedLinkIsRefused(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(target, filepath.Join(dir, id+".jsonl")); err != nil {
		t.Fatal(err)
	}
	f := openLog(t, dir, 0, 0)
	f.add(id, 1, 1)
	f.Stop()
	if _, err := os.Lstat(target); err == nil {
		t.Error("the link was followed")
	}
}

func TestCheck(t *testing.T) {
	change := func(f func(*rig.EgressEvent)) rig.EgressEvent { e := event(1); f(&e); return e }
	for name, e := range map[string]rig.EgressEvent{
		"no number":           change(func(e *rig.EgressEvent) { e.Seq = 0 }),
		"a negative number":   change(func(e *rig.EgressEvent) { e.Seq = -1 }),
		"an unknown verdict":  change(func(e *rig.EgressEvent) { e.Verdict = "maybe" }),
		"no reason":           change(func(e *rig.EgressEvent) { e.Reason = "" }),
		"a reason with words": change(func(e *rig.EgressEvent) { e.Reason = "all is well" }),
		"a protocol":          change(func(e *rig.EgressEvent) { e.Protocol = "http" }),
		"an escape sequence":  change(func(e *rig.EgressEvent) { e.Host = "a\x1b[2J" }),
		"a long host":         change(func(e *rig.EgressEvent) { e.Host = strings.Repeat("a", 257) }),
		"an address":          change(func(e *rig.EgressEvent) { e.Address = "here" }),
		"a zone":              change(func(e *rig.EgressEvent) { e.Address = "fe80::1%" + strings.Repeat("x", 100) }),
		"a port":              change(func(e *rig.EgressEvent) { e.Port = 65536 }),
		"bytes":               change(func(e *rig.EgressEvent) { e.BytesIn = -1 }),
		"a count":             change(func(e *rig.EgressEvent) { e.Count = -1 }),
		"seconds":             change(func(e *rig.EgressEvent) { e.Seconds = math.NaN() }),
		"endless seconds":     change(func(e *rig.EgressEvent) { e.Seconds = math.Inf(1) }),
	} {
		if Check(&e, noon) {
			t.Errorf("%s is believed: %+v", name, e)
		}
	}
	for name, e := range map[string]rig.EgressEvent{
		"plain":        event(1),
		"without host": change(func(e *rig.EgressEvent) { e.Host = ""; e.Address = "192.0.2.1" }),
		"IPv6":         change(func(e *rig.EgressEvent) { e.Address = "2001:db8::1" }),
		"a bad name":   change(func(e *rig.EgressEvent) { e.Host = `a_b\032c`; e.Protocol = "dns" }),
	} {
		if !Check(&e, noon) {
			t.Errorf("%s is not believed: %+v", name, e)
		}
	}
	e := change(func(e *rig.EgressEvent) { e.Time = noon.Add(time.Hour) })
	if !Check(&e, noon) || !e.Time.Equal(noon) {
		t.Errorf("the time is %v", e.Time)
	}
}

func TestNumbersAscend(t *testing.T) {
	f := openLog(t, t.TempDir(), 0, 0)
	f.add(id, 1, 2)
	for _, n := range []int64{2, 1, 0, -5} {
		if _, ok := f.Append(id, event(n)); ok {
			t.Errorf("%d after 2 is believed", n)
		}
	}
	if _, ok := f.Append("../x", event(1)); ok {
		t.Error("a path is taken for an id")
	}
	f.add(id, 7, 7)
	if seqs, lost := f.read(id); len(seqs) != 3 || lost != 4 {
		t.Errorf("kept %v, lost %d", seqs, lost)
	}
	if n := f.line("invalid"); n != 5 {
		t.Errorf("%d are counted as invalid, want 5", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	c := &counts{lines: map[string]int{}}
	l, err := Open(Options{Dir: b.TempDir(), Metrics: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Stop()
	n := int64(0)
	for b.Loop() {
		n++
		l.Append(id, event(n))
	}
	b.ReportMetric(float64(c.line("dropped"))/float64(n), "dropped/op")
}
