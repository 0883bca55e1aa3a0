package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"rigs/client"
	"rigs/internal/rig"
	"rigs/internal/testenv"
)

// bench is a running server and a client of it.
type bench struct {
	*client.Client
	rigs    string // absolute path of the binary
	dir     string // scratch, removed at the end
	env     []string
	server  *exec.Cmd
	log     *os.File
	exited  chan error
	machine string
}

func start(ctx context.Context) (*bench, error) {
	bin, err := filepath.Abs(*rigsBin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rigs-bench")
	if err != nil {
		return nil, err
	}
	// Machines run as another user when root measures.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	cache, err := testenv.CacheDir()
	if err != nil {
		return nil, err
	}
	b := &bench{rigs: bin, dir: dir, exited: make(chan error, 1), machine: describe()}
	b.env = append(os.Environ(), "RIGS_HOME="+home, "RIGS_CACHE="+cache, "RIGS_LISTEN=127.0.0.1:0", "RIGS_SERVER="+filepath.Join(home, "rigs.sock"))
	if b.log, err = os.Create(filepath.Join(dir, "server.log")); err != nil {
		return nil, err
	}
	b.server = exec.Command(bin, "serve") //nolint:noctx // ended in order by stop, not by a context
	b.server.Env, b.server.Stdout, b.server.Stderr = b.env, b.log, b.log
	if err := b.server.Start(); err != nil {
		return nil, err
	}
	go func() { b.exited <- b.server.Wait() }()
	if b.Client, err = client.New(filepath.Join(home, "rigs.sock"), ""); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	if err := b.ready(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// ready waits for the server, then has it make whatever is missing.
func (b *bench) ready(ctx context.Context) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := b.Server(ctx)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case err := <-b.exited:
			out, _ := os.ReadFile(b.log.Name()) // the error below says enough without it
			b.exited <- err
			return fmt.Errorf("the server ended: %w\n%s", err, out)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	last := ""
	say := func(s client.Step) {
		if s.Text != last {
			last = s.Text
			fmt.Fprintln(os.Stderr, "preparing:", last)
		}
	}
	// An image that is there and fresh is not built again.
	if _, err := b.BuildImage(ctx, string(rig.Terminal), false, say); err != nil {
		return err
	}
	r, err := b.open(ctx, client.Spec{}, say)
	if err != nil {
		return err
	}
	if r.Boot != "clone" {
		return fmt.Errorf("rigs boot %s here, there is no template to measure", r.Boot)
	}
	_, err = b.Close(ctx, r.ID)
	return err
}

// open opens a new terminal and waits until it is ready.
func (b *bench) open(ctx context.Context, s client.Spec, onStep func(client.Step)) (client.Rig, error) {
	s.Surface, s.Space, s.New = rig.Terminal, "bench", true
	r, _, err := b.Open(ctx, s)
	if err != nil {
		return r, err
	}
	return b.WaitReady(ctx, r.ID, onStep)
}

// command is a client process of the measured server.
func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, b.rigs, args...)
	c.Env = b.env
	c.Stderr = os.Stderr
	return c
}

func (b *bench) stop() (err error) {
	defer func() { err = errors.Join(err, b.log.Close(), os.RemoveAll(b.dir)) }()
	if err := b.server.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-b.exited:
		return err
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("the server did not end within 30 s of SIGTERM"), b.server.Process.Kill())
	}
}

// describe says what was measured on.
func describe() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), model)
}
