package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"rigs/internal/paths"
	"rigs/internal/rig"
)

const (
	// tscSpan is how long one measurement of the counter's rate takes, and
	// tscRuns how many there are; the middle one counts.
	tscSpan = 40 * time.Millisecond
	tscRuns = 5
	// tscTolerance is by how much two measurements of one processor may differ, in
	// parts per million. A rate within it is the old one: otherwise every boot of the host
	// would give another, and with it other templates. 100 ppm are 0.4 s in an hour.
	tscTolerance = 100
)

// tscRecord is what is kept of a measurement.
type tscRecord struct {
	BootID string `json:"bootId"`
	CPU    string `json:"cpu"`
	KHz    int    `json:"khz"`
}

// TSCKHz is the rate of the host's time-stamp counter in kHz, 0 where there is
// none. It is measured once in each boot of the host.
func TSCKHz(ctx context.Context, l paths.Layout) (int, error) {
	if !haveTSC {
		return 0, nil
	}
	path := filepath.Join(l.Probes(), "tsc.json")
	now := tscRecord{BootID: bootID(), CPU: CPU()}
	var old tscRecord
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &old) != nil {
		old = tscRecord{} // unreadable is as good as none
	}
	if old.KHz > 0 && old.CPU == now.CPU && old.BootID == now.BootID && now.BootID != "" {
		return old.KHz, nil
	}
	khz, err := measureTSC(ctx)
	if err != nil {
		return 0, err
	}
	now.KHz = khz
	if old.CPU == now.CPU && within(old.KHz, khz, tscTolerance) {
		now.KHz = old.KHz
	}
	if err := writeProbe(path, now); err != nil {
		return 0, err
	}
	return now.KHz, nil
}

func within(a, b, ppm int) bool {
	d := a - b
	return a > 0 && max(d, -d) <= a/1_000_000*ppm
}

// measureTSC compares the counter with the system's monotonic clock.
func measureTSC(ctx context.Context) (int, error) {
	runtime.LockOSThread() // a thread that moves costs precision, not correctness
	defer runtime.UnlockOSThread()
	var runs []int
	for range tscRuns {
		t0, c0 := tscNow()
		timer := time.NewTimer(tscSpan)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-timer.C:
		}
		t1, c1 := tscNow()
		ns := t1.Sub(t0).Nanoseconds()
		if c1 <= c0 || ns <= 0 {
			return 0, rig.Errorf(rig.CodeUnavailable, "the processor's time-stamp counter does not count: emulated machines need it")
		}
		runs = append(runs, int((c1-c0)*1_000_000/uint64(ns)))
	}
	slices.Sort(runs)
	khz := runs[len(runs)/2]
	if khz < 100_000 || khz > 20_000_000 {
		return 0, rig.Errorf(rig.CodeUnavailable, "the processor's time-stamp counter runs at %d kHz, which cannot be", khz)
	}
	return khz, nil
}

// tscNow reads both clocks at one moment: of several tries the one that was
// interrupted least.
func tscNow() (time.Time, uint64) {
	var when time.Time
	var count uint64
	best := ^uint64(0)
	for range 50 {
		before := rdtsc()
		t := time.Now()
		after := rdtsc()
		if after-before < best {
			best, when, count = after-before, t, before+(after-before)/2
		}
	}
	return when, count
}

// bootID names this boot of the host, "" where the system does not.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// writeProbe keeps a result, in one step.
func writeProbe(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep a probe's result: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".probe-*")
	if err != nil {
		return fmt.Errorf("keep a probe's result: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep a probe's result: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
