package keeper

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"rigs/internal/keeper/confine"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// Bounds on the keeper's own memory: one for each rig stays resident for hours.
const (
	gcPercent   = 40
	memoryLimit = 48 << 20
)

// Main is the command "rigs keeper". It reads its configuration from stdin and
// returns the exit status. Modes other than rig report on stdout, one
// keeperapi.Event for each line, and give up when stdin ends.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) int {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	hardenProcess()
	out := &eventWriter{enc: json.NewEncoder(stdout)}
	cfg, err := readConfig(stdin)
	if err != nil {
		out.failed(rig.Errorf(rig.CodeInvalidRequest, "%w", err))
		return 1
	}
	log := newLog(cfg)
	lacks, err := confine.Keeper(confine.FilesOf(cfg, TemplateMemory))
	if err != nil {
		log.Error("keeper failed", "err", err)
		out.failed(rig.Errorf(rig.CodeUnavailable, "%w", err))
		return 1
	}
	if lacks != "" {
		log.Warn("not confined as far as it could be", "lacks", lacks)
	}
	if cfg.Mode == keeperapi.ModeRig {
		if err := serveRig(ctx, cfg, log); err != nil {
			log.Error("keeper failed", "err", err)
			out.failed(err)
			return 1
		}
		return 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(rig.Errorf(rig.CodeCanceled, "the server went away"))
	}()
	if !cfg.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, cfg.Deadline, rig.Errorf(rig.CodeTimeout, "its time is over"))
		defer stop()
	}
	task := makeTemplate
	if cfg.Mode == keeperapi.ModeProbe {
		task = probe
	}
	if err := task(ctx, cfg, log, out.step); err != nil {
		out.failed(err)
		return 1
	}
	return 0
}

func newLog(cfg keeperapi.Config) *slog.Logger {
	level := slog.LevelInfo
	if cfg.LogLevel != "" && level.UnmarshalText([]byte(cfg.LogLevel)) != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("rig", cfg.RigID)
}

// eventWriter writes events as lines. A reader that has gone is noticed through
// the lifeline, so errors are not.
type eventWriter struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (w *eventWriter) write(e keeperapi.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(e)
}

func (w *eventWriter) step(s rig.Step) { w.write(keeperapi.Event{Type: "step", Step: &s}) }

func (w *eventWriter) failed(err error) {
	w.write(keeperapi.Event{Type: "phase", Phase: rig.Failed, Error: rig.AsProblem(err)})
}

// Limits on how long a machine may take, for a host that is very busy and
// emulates.
const (
	cloneTimeout   = 30 * time.Second
	coldTimeout    = 3 * time.Minute
	answerTimeout  = 30 * time.Second // of an agent that is up
	probeTimeout   = 20 * time.Second // without a deadline in the configuration
	quiesceTimeout = 2 * time.Minute
)
