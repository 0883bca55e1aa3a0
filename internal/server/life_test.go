package server_test

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

func TestARigIsOpenedUsedAndClosed(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	var steps []string
	r, created, err := s.Open(ctx, rig.Spec{Surface: rig.Terminal, Space: good, Allow: []string{"a.test"}})
	if err != nil || !created || r.Phase != rig.Provisioning {
		t.Fatalf("%+v %v %v", r, created, err)
	}
	r, err = s.WaitReady(ctx, r.ID, func(st rig.Step) { steps = append(steps, st.Text) })
	if err != nil {
		t.Fatal(err)
	}
	if r.Boot != "cold" || r.Accel != "tcg" || r.ReadyAt.IsZero() || !slices.Equal(r.Egress, []string{"default.test", "a.test"}) {
		t.Errorf("%+v", r)
	}
	if r.Resources != rig.Terminal.Defaults() || !r.ExpiresAt.Equal(r.OpenedAt.Add(8*time.Hour)) {
		t.Errorf("%+v", r)
	}
	res, err := s.Run(ctx, "good/terminal", client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "hi"}, Input: []byte("in")})
	if err != nil || string(res.Stdout) != "hi" || string(res.Stderr) != "in" {
		t.Fatalf("%+v %v", res, err)
	}
	var out bytes.Buffer
	st, err := s.Exec(ctx, r.ID, client.ExecRequest{Shell: "cat", Stdin: true}, client.StreamIO{Stdin: strings.NewReader(strings.Repeat("x", 1<<20)), Stdout: &out})
	if err != nil || st.Code != 7 || out.Len() != 1<<20 {
		t.Fatalf("%+v %v, %d bytes", st, err, out.Len())
	}
	closed, err := s.Close(ctx, r.ID[:4])
	if err != nil || closed.Phase != rig.Closed || closed.CloseReason != rig.Requested || closed.ClosedAt.IsZero() {
		t.Fatalf("%+v %v", closed, err)
	}
	nothing := processes(t, s.home)
	if len(nothing) > 0 {
		t.Errorf("processes are left: %v", nothing)
	}
	if l, err := s.Rigs(ctx, client.ListOptions{}); err != nil || len(l) != 0 {
		t.Errorf("%v %v", l, err)
	}
	if l, err := s.Rigs(ctx, client.ListOptions{All: true}); err != nil || len(l) != 1 || l[0].ID != r.ID {
		t.Errorf("%v %v", l, err)
	}
	if again, err := s.Close(ctx, r.ID); err != nil || again.Phase != rig.Closed {
		t.Errorf("closing a closed rig: %+v %v", again, err)
	}
	_, err = s.Run(ctx, r.ID, client.ExecCollect{})
	code(t, err, rig.CodeGone)
	_ = steps
}

func TestASpaceHasOneRigOfASurface(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	type answer struct {
		r       rig.Rig
		created bool
		err     error
	}
	answers := make(chan answer)
	for range 8 {
		go func() {
			r, c, err := s.Open(ctx, rig.Spec{Surface: rig.Terminal, Space: good})
			answers <- answer{r, c, err}
		}()
	}
	made := 0
	ids := map[string]bool{}
	for range 8 {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		if ids[a.r.ID] = true; a.created {
			made++
		}
	}
	if made != 1 || len(ids) != 1 {
		t.Errorf("%d made, %d different", made, len(ids))
	}
	another, created, err := s.Open(ctx, rig.Spec{Surface: rig.Terminal, Space: good, New: true})
	if err != nil || !created || ids[another.ID] {
		t.Errorf("New: %+v %v %v", another, created, err)
	}
	first, err := s.Rig(ctx, "good/terminal")
	if err != nil || !ids[first.ID] {
		t.Errorf("the space's own is the first: %+v %v", first, err)
	}
	_, _, err = s.Open(ctx, rig.Spec{Surface: rig.Mac, Space: "macs"})
	code(t, err, rig.CodeUnavailable)
	if _, err = s.Rig(ctx, "macs/mac"); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("what can never be had leaves a rig: %v", err)
	}
	b1 := s.open(rig.Spec{Surface: rig.Browser, Space: good})
	b2 := s.open(rig.Spec{Surface: rig.Browser, Space: good, Engine: rig.Firefox})
	if b1.Engine != rig.Chromium || b1.ID == b2.ID {
		t.Errorf("one rig for each engine: %+v %+v", b1, b2)
	}
	_, err = s.Rig(ctx, "good/browser")
	code(t, err, rig.CodeAmbiguous)
	if r, err := s.Rig(ctx, "good/browser:firefox"); err != nil || r.ID != b2.ID {
		t.Errorf("%+v %v", r, err)
	}
}

func TestAMachineThatCannotBeHadFailsWithTheReason(t *testing.T) {
	s := start(t, home(t), nil)
	for _, x := range []struct {
		space string
		code  rig.Code
		says  string
	}{
		{missing, rig.CodeUnavailable, "rigs image build terminal"},
		{dying, rig.CodeBackendFailure, "no hypervisor here"},
		{failing, rig.CodeBackendFailure, "the kernel panicked"},
	} {
		r := s.open(rig.Spec{Space: x.space})
		_, err := s.WaitReady(ctxOf(t), r.ID, nil)
		code(t, err, x.code)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.space, err)
		}
		if r = s.phase(r.ID, rig.Failed); r.Error == nil {
			t.Errorf("%s: %+v", x.space, r)
		}
		_, err = s.Run(ctxOf(t), x.space+"/terminal", client.ExecCollect{})
		code(t, err, rig.CodeBackendFailure)
		again, created, err := s.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: x.space})
		if err != nil || !created || again.ID == r.ID {
			t.Errorf("%s: a failed rig does not keep its place: %+v %v %v", x.space, again, created, err)
		}
		if c, err := s.Close(ctxOf(t), r.ID); err != nil || c.Phase != rig.Closed || c.Error == nil {
			t.Errorf("%s: %+v %v", x.space, c, err)
		}
	}
}

func TestAKilledKeeperFailsTheRigAtOnceAndNothingReplacesIt(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: survivor})
	for pid := range processes(t, s.home) {
		b, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
		if strings.Contains(string(b), "keeper") {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	r = s.phase(r.ID, rig.Failed)
	code(t, r.Error, rig.CodeBackendFailure)
	_, err := s.Run(ctxOf(t), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}})
	code(t, err, rig.CodeBackendFailure)
	if c, err := s.Close(ctxOf(t), r.ID); err != nil || c.Phase != rig.Closed {
		t.Fatalf("%+v %v", c, err)
	}
	if p := processes(t, s.home); len(p) > 0 {
		t.Errorf("its machine outlived it: %v", p)
	}
}

func TestAKeeperThatCrashesLiesOrFloodsIsAProblemOfItsRigOnly(t *testing.T) {
	s := start(t, home(t), nil)
	other := s.ready(rig.Spec{Space: good})
	r := s.ready(rig.Spec{Space: "worse"})
	for _, what := range []string{"lie", "flood", "crash"} {
		_, err := s.Run(ctxOf(t), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: what}})
		code(t, err, rig.CodeBackendFailure)
	}
	s.phase(r.ID, rig.Failed)
	if _, err := s.Run(ctxOf(t), other.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "hi"}}); err != nil {
		t.Error(err)
	}
}

func TestClosingWhileProvisioning(t *testing.T) {
	s := start(t, home(t), nil)
	for _, space := range []string{blocked, slow} {
		r := s.open(rig.Spec{Space: space})
		s.until(r.ID, "at a step", func(r rig.Rig) bool { return r.Step != nil })
		c, err := s.Close(ctxOf(t), r.ID)
		if err != nil || c.Phase != rig.Closed || c.CloseReason != rig.Requested || c.Error != nil {
			t.Errorf("%s: %+v %v", space, c, err)
		}
	}
}

func TestOnlySoManyMachinesStartAtOnce(t *testing.T) {
	s := start(t, home(t), nil)
	var first rig.Rig
	for range runtime.NumCPU() {
		first = s.open(rig.Spec{Space: slow, New: true})
		s.until(first.ID, "starting", func(r rig.Rig) bool { return r.Step != nil && r.Step.Text == "Booting" })
	}
	waits := s.open(rig.Spec{Space: good})
	s.until(waits.ID, "waiting", func(r rig.Rig) bool { return r.Step != nil && r.Step.Text == "Waiting for other machines to start" })
	gone := s.open(rig.Spec{Space: good, New: true}) // closed in the queue, it takes nobody's place
	s.until(gone.ID, "waiting", func(r rig.Rig) bool { return r.Step != nil && r.Step.Text == "Waiting for other machines to start" })
	for _, r := range []rig.Rig{gone, first} {
		if _, err := s.Close(ctxOf(t), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.phase(waits.ID, rig.Ready)
	s.phase(s.open(rig.Spec{Space: good, New: true}).ID, rig.Ready) // the place is free again
}

func TestTTLCountsRealTime(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good, TTLSeconds: 3600})
	keep := s.ready(rig.Spec{Space: "longer", TTLSeconds: 7200, IdleSeconds: 7200})
	s.clock.advance(time.Hour + time.Second) // as after a suspend: no timer has fired
	r = s.phase(r.ID, rig.Closed)
	if r.CloseReason != rig.TTLExpired {
		t.Errorf("%+v", r)
	}
	if k, err := s.Rig(ctxOf(t), keep.ID); err != nil || k.Phase != rig.Ready {
		t.Errorf("%+v %v", k, err)
	}
}

func TestAKeepersOwnTTLClosesTheRig(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.open(rig.Spec{Space: stale})
	if r = s.phase(r.ID, rig.Closed); r.CloseReason != rig.TTLExpired || r.Error != nil {
		t.Errorf("%+v", r)
	}
}

func TestAnIdleRigIsParkedWokenByUseAndClosedInTheEnd(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good, IdleSeconds: 60})

	// In use: however long, it is not parked.
	conn, err := s.Stream(ctxOf(t), r.ID, "terminal")
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.NewWriter(conn).WriteJSON(wire.KindStart, guestapi.TerminalRequest{}); err != nil {
		t.Fatal(err)
	}
	s.until(r.ID, "in use", func(r rig.Rig) bool { return slices.Equal(r.InUse, []string{"1 terminal open"}) })
	_, err = s.Park(ctxOf(t), r.ID)
	code(t, err, rig.CodeConflict)
	s.clock.advance(15 * time.Minute)
	canary := s.ready(rig.Spec{Space: "canary", IdleSeconds: 10})
	s.clock.advance(11 * time.Second)
	s.phase(canary.ID, rig.Parked) // so the clock has ticked
	if r, err := s.Rig(ctxOf(t), r.ID); err != nil || r.Phase != rig.Ready {
		t.Fatalf("parked while in use: %+v %v", r, err)
	}
	conn.Close()
	s.until(r.ID, "unused", func(r rig.Rig) bool { return len(r.InUse) == 0 })

	s.clock.advance(61 * time.Second)
	s.phase(r.ID, rig.Parked)
	if _, err := s.Egress(ctxOf(t), r.ID); err != nil {
		t.Errorf("looking does not need a running machine: %v", err)
	}
	if got, err := s.Rig(ctxOf(t), r.ID); err != nil || got.Phase != rig.Parked {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := s.Run(ctxOf(t), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "hi"}}); err != nil {
		t.Fatal(err)
	}
	s.phase(r.ID, rig.Ready)
	s.clock.advance(121 * time.Second)
	if r = s.phase(r.ID, rig.Closed); r.CloseReason != rig.IdleTimeout {
		t.Errorf("%+v", r)
	}
}

func TestParkAndWake(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	for range 2 {
		if r, err := s.Park(ctxOf(t), r.ID); err != nil || r.Phase != rig.Parked {
			t.Fatalf("%+v %v", r, err)
		}
	}
	for range 2 {
		if r, err := s.Wake(ctxOf(t), r.ID); err != nil || r.Phase != rig.Ready {
			t.Fatalf("%+v %v", r, err)
		}
	}
}

func TestShutdownClosesEveryRigWhateverItsKeeperDoes(t *testing.T) {
	dir := home(t)
	s := start(t, dir, nil)
	for _, space := range []string{good, deaf, survivor} {
		s.ready(rig.Spec{Space: space})
	}
	s.open(rig.Spec{Space: slow})
	s.open(rig.Spec{Space: blocked})
	conn, err := s.Stream(ctxOf(t), "good/terminal", "terminal")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, dir)
	if _, err := io.ReadAll(conn); err != nil && !isReset(err) {
		t.Error(err)
	}
	s = start(t, dir, nil)
	all, err := s.Rigs(ctxOf(t), client.ListOptions{All: true})
	if err != nil || len(all) != 5 {
		t.Fatalf("%v %v", all, err)
	}
	for _, r := range all {
		if r.Phase != rig.Closed || r.CloseReason != rig.ServerShutdown {
			t.Errorf("%s: %s %s", r.Space, r.Phase, r.CloseReason)
		}
	}
}

func TestTheMemoryBudgetEvictsTheLeastRecentlyUsedAndNobodyInUse(t *testing.T) {
	// Keepers without machines take less than a machine may: what is measured
	// counts, so many fit; a budget below one machine's own size fits none.
	s := start(t, home(t), map[string]string{"memoryBudgetMB": "700"})
	a := s.ready(rig.Spec{Space: "a"})
	b := s.ready(rig.Spec{Space: "b"})
	for _, r := range []rig.Rig{a, b} {
		if r, err := s.Rig(ctxOf(t), r.ID); err != nil || r.Phase != rig.Ready {
			t.Errorf("%+v %v", r, err)
		}
	}
	_, _, err := s.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: "huge", MemoryMB: 4096})
	code(t, err, rig.CodeCapacity)
	// One that is being made counts in full.
	s.open(rig.Spec{Space: slow})
	conn, err := s.Stream(ctxOf(t), b.ID, "terminal")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _, err = s.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: "c"})
	code(t, err, rig.CodeCapacity)
	if r, err := s.Rig(ctxOf(t), b.ID); err != nil || r.Phase != rig.Ready {
		t.Errorf("%+v %v", r, err)
	}
}

func TestDeletingASpaceOrAWorkspaceClosesItsRigs(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	if _, err := s.CreateWorkspace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	_, err := s.CreateWorkspace(ctx, "team")
	code(t, err, rig.CodeConflict)
	one := s.ready(rig.Spec{Space: good})
	two := s.ready(rig.Spec{Workspace: "team", Space: good})
	if err := s.DeleteSpace(ctx, good); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Rig(ctx, one.ID); err != nil || r.Phase != rig.Closed || r.CloseReason != rig.ConversationEnded {
		t.Errorf("%+v %v", r, err)
	}
	ws, err := s.Workspaces(ctx)
	if err != nil || len(ws) != 2 || ws[1].Name != "team" || ws[1].Rigs != 1 || ws[1].Spaces != 1 {
		t.Errorf("%+v %v", ws, err)
	}
	if err := s.DeleteWorkspace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Rig(ctx, two.ID); err != nil || r.Phase != rig.Closed || r.CloseReason != rig.WorkspaceGone {
		t.Errorf("%+v %v", r, err)
	}
	_, _, err = s.Open(ctx, rig.Spec{Surface: rig.Terminal, Workspace: "team"})
	code(t, err, rig.CodeNotFound)
	code(t, s.DeleteWorkspace(ctx, "default"), rig.CodeConflict)
}

func TestFilesAndEgressPassThrough(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	r := s.ready(rig.Spec{Space: good})
	f, err := s.ReadFiles(ctx, r.ID, "/a b")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	f.Close()
	if err != nil || string(b) != "a tar of /a b" {
		t.Errorf("%q %v", b, err)
	}
	_, err = s.ReadFiles(ctx, r.ID, "none")
	code(t, err, rig.CodeNotFound)
	if f, err = s.ReadFiles(ctx, r.ID, "cut"); err == nil {
		if _, err = io.ReadAll(f); err == nil {
			t.Error("a part was taken for the whole")
		}
		f.Close()
	}
	if err := s.WriteFiles(ctx, r.ID, "~", io.LimitReader(zeros{}, 3<<20)); err != nil {
		t.Error(err)
	}
	code(t, s.WriteFiles(ctx, r.ID, "~", strings.NewReader("x")), rig.CodeInvalidRequest)
	if st, err := s.Stat(ctx, r.ID, "/etc/../x"); err != nil || st.Path != "/etc/../x" {
		t.Errorf("%+v %v", st, err)
	}

	got := make(chan client.Event, 16)
	seen := make(chan error, 1)
	go func() {
		seen <- s.Events(ctx, client.EventOptions{Rig: r.ID}, func(e client.Event) bool { got <- e; return e.Egress == nil })
	}()
	<-got // it has begun
	rules, err := s.Allow(ctx, r.ID, "new.test")
	if err != nil || !slices.Contains(rules.Patterns, "new.test") {
		t.Fatalf("%+v %v", rules, err)
	}
	if err := <-seen; err != nil {
		t.Fatal(err)
	}
	close(got)
	types := map[string]bool{}
	for e := range got {
		types[e.Type] = true
	}
	if !types["rules"] || !types["egress"] {
		t.Errorf("%v", types)
	}
	if r, err := s.Rig(ctx, r.ID); err != nil || !slices.Contains(r.Egress, "new.test") {
		t.Errorf("%+v %v", r, err)
	}
	if l, err := s.EgressLog(ctx, r.ID, 41); err != nil || len(l.Events) != 1 || l.Events[0].Seq != 42 {
		t.Errorf("%+v %v", l, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestImagesAndTemplatesReportTheirSteps(t *testing.T) {
	s := start(t, home(t), nil)
	var steps []string
	step := func(st rig.Step) { steps = append(steps, st.Text) }
	if m, err := s.BuildImage(ctxOf(t), "terminal", false, step); err != nil || m.Name != "terminal" {
		t.Errorf("%+v %v", m, err)
	}
	if tm, err := s.MakeTemplate(ctxOf(t), client.MakeTemplate{Surface: rig.Terminal}, step); err != nil || tm.Key != "k" {
		t.Errorf("%+v %v", tm, err)
	}
	if !slices.Equal(steps, []string{"Unpacking", "Booting"}) {
		t.Errorf("%q", steps)
	}
	_, err := s.BuildImage(ctxOf(t), "broken", false, nil)
	code(t, err, rig.CodeIntegrity)
}

func TestMetricsCountWhatHappened(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	if _, err := s.Close(ctxOf(t), r.ID); err != nil {
		t.Fatal(err)
	}
	s.ready(rig.Spec{Space: good})
	var b bytes.Buffer
	if err := s.Metrics(ctxOf(t), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`rigs_rigs{phase="ready"} 1`, `rigs_opens_total{surface="terminal"} 2`, `rigs_closes_total{reason="requested",surface="terminal"} 1`,
		`rigs_open_seconds_count{boot="cold",surface="terminal"} 2`, `rigs_http_request_seconds_count{method="DELETE",route="DELETE /v1/rigs/{rig}",status="200"} 1`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}
