// Package placement starts keepers. A placement is where they run; Local makes
// them children of this server. What comes back is an address to talk HTTP to,
// so another placement (a pod each) can stand in its place.
//
// A keeper is expendable and not trusted with anything of the server's: it gets
// its configuration on standard input, an environment of the few variables that
// it needs, and, when the server is root, an unprivileged user that no other
// keeper has. What it prints is bounded.
package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rigs/internal/keeper/confine"
	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/server/sweep"
	"rigs/internal/upstream"
	"rigs/internal/wire"
)

// passedEnv are the server's variables that a keeper needs: where programs are
// found and how they speak. Not its proxies: they may come with a password, which
// QEMU would inherit and everybody could read who may look at its environment.
var passedEnv = []string{"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR", "GOCOVERDIR"}

// maxTaskLine bounds one event of a task, in bytes.
const maxTaskLine = 1 << 20

// Local runs keepers as children of this process.
type Local struct {
	layout  paths.Layout
	owner   string           // the data directory's id
	command []string         // program and arguments of a keeper
	user    *User            // nil: the server's own
	proxy   *keeperapi.Proxy // nil: none
	log     *slog.Logger
}

// NewLocal returns a placement for keepers of the data directory with id owner.
// command is the program that is a keeper; empty means this one, with the
// argument "keeper".
func NewLocal(l paths.Layout, owner string, command []string, log *slog.Logger) (*Local, error) {
	if len(command) == 0 {
		self, err := selfPath()
		if err != nil {
			return nil, fmt.Errorf("keepers: %w", err)
		}
		command = []string{self, "keeper"}
	}
	proxy, err := upstream.FromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	u, err := keeperUser()
	if err != nil {
		return nil, err
	}
	p := &Local{layout: l, owner: owner, command: command, user: u, proxy: proxy, log: log}
	return p, p.CanEnter()
}

// User is the name of the unprivileged user that keepers run as, or "" for the server's own.
func (l *Local) User() string {
	if l.user == nil {
		return ""
	}
	return l.user.Name
}

// TemplateIDs are the owner that a template's memory must have for clones to open it; false
// when they run as the server's own user.
func (l *Local) TemplateIDs() (uid, gid int, ok bool) {
	switch {
	case l.user == nil:
		return 0, 0, false
	case l.user.Each:
		return 0, confine.TemplateGID, true
	}
	return int(l.user.UID), int(l.user.GID), true
}

// CanEnter returns an error that says what to do if that user cannot pass
// through the data or the cache directory.
func (l *Local) CanEnter() error {
	if l.user == nil {
		return nil
	}
	return errors.Join(l.user.CanEnter(l.layout.Data()), l.user.CanEnter(l.layout.Cache()))
}

// Prepare makes the directories that keepers' own ones are made in.
func (l *Local) Prepare() error {
	if err := makeRuntime(l.layout.Runtime(), l.user != nil); err != nil {
		return fmt.Errorf("the directory for sockets: %w", err)
	}
	if l.user != nil && l.user.Each {
		if err := sweep.PrepareClaims(); err != nil {
			return fmt.Errorf("the directory for the uids of rigs: %w", err)
		}
	}
	mode := os.FileMode(0o700)
	if l.user != nil {
		mode = 0o711
	}
	if err := os.MkdirAll(l.layout.Disks(), mode); err != nil {
		return err
	}
	return os.Chmod(l.layout.Disks(), mode)
}

// makeRuntime is paths.MakePrivate, but lets the keepers' user pass through
// when the server is root. The parent is then /run, where nobody can plant.
func makeRuntime(dir string, through bool) error {
	if !through {
		return paths.MakePrivate(dir)
	}
	if fi, err := os.Lstat(dir); err == nil && fi.IsDir() && fi.Mode().Perm() == 0o711 {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
			return nil
		}
	}
	if err := paths.MakePrivate(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// own makes a directory that only the keeper can use.
func own(dir string, u *User) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return give(dir, u)
}

func give(dir string, u *User) error {
	if u == nil {
		return nil
	}
	return os.Chown(dir, int(u.UID), int(u.GID))
}

// Keeper is a running keeper, or one that has ended.
type Keeper struct {
	ID   string
	Dial wire.DialFunc
	HTTP *http.Client // any host name will do

	cmd  *exec.Cmd
	log  *keeperLog
	done chan struct{}
	err  error // how it ended, after done
}

// Done is closed when the keeper's process has ended.
func (k *Keeper) Done() <-chan struct{} { return k.done }

// Err says how the process ended; nil for status 0. Only after Done.
func (k *Keeper) Err() error { return k.err }

// Tail returns the end of what the keeper logged.
func (k *Keeper) Tail() string { return k.log.Tail() }

// Kill ends the process at once. Its VM ends with it.
func (k *Keeper) Kill() {
	select {
	case <-k.done:
	default:
		_ = k.cmd.Process.Kill() // it may just have ended
	}
}

// Start starts the keeper of a rig. It fills in the fields of cfg that are the
// placement's: mode, owner, proxy, socket and directories. The keeper lives until it
// ends by itself or is killed; ctx bounds the start only. On error nothing is
// left behind.
func (l *Local) Start(ctx context.Context, cfg keeperapi.Config) (*Keeper, error) {
	cfg.Mode, cfg.Proxy = keeperapi.ModeRig, l.proxy
	if sweepSupported { // where processes can be told apart, so can users
		uid := os.Getuid()
		cfg.ServerUID = &uid
	}
	cfg.Owner = sweep.Mark(l.owner, cfg.RigID)
	cfg.RuntimeDir, cfg.DiskDir, cfg.Socket = l.layout.Rig(cfg.RigID), l.layout.Disk(cfg.RigID), l.layout.KeeperSocket(cfg.RigID)
	if err := paths.CheckSocket(cfg.Socket); err != nil {
		return nil, rig.Errorf(rig.CodeUnavailable, "%w", err)
	}
	k, err := l.start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, l.Remove(cfg.RigID))
	}
	return k, nil
}

func (l *Local) start(ctx context.Context, cfg keeperapi.Config) (*Keeper, error) {
	u, err := l.directories(cfg.RigID)
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	klog, err := openKeeperLog(filepath.Join(cfg.DiskDir, "keeper.log"), l.log.With("rig", cfg.RigID))
	if err != nil {
		return nil, err
	}
	cmd := l.process(cfg.Owner, u)
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Stderr = klog
	if err := ctx.Err(); err != nil {
		klog.Close()
		return nil, err
	}
	if err := confine.Start(cmd); err != nil {
		klog.Close()
		return nil, rig.Errorf(rig.CodeBackendFailure, "the keeper did not start: %w", err)
	}
	k := &Keeper{ID: cfg.RigID, cmd: cmd, log: klog, done: make(chan struct{})}
	var d net.Dialer
	k.Dial = func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", cfg.Socket) }
	k.HTTP = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return k.Dial(ctx) },
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
		ReadBufferSize: wire.MaxFrame, WriteBufferSize: wire.MaxFrame, MaxResponseHeaderBytes: 16 << 10,
	}}
	go func() {
		k.err = cmd.Wait()
		klog.Close()
		k.HTTP.CloseIdleConnections()
		close(k.done)
	}()
	return k, nil
}

// directories makes a rig's directories for the user that its keeper is to run as, and returns that:
// nil for the server's own.
func (l *Local) directories(id string) (*User, error) {
	u := l.user
	if u != nil && u.Each {
		uid, err := sweep.Claim(l.owner, id)
		if err != nil {
			return nil, rig.Errorf(rig.CodeUnavailable, "%w", err)
		}
		u = u.as(uid)
	}
	for _, dir := range []string{l.layout.Rig(id), l.layout.Disk(id)} {
		if err := own(dir, u); err != nil {
			return nil, rig.Errorf(rig.CodeUnavailable, "no directory for the machine: %w", err)
		}
	}
	return u, nil
}

// process is a keeper's process, not started yet.
func (l *Local) process(mark string, u *User) *exec.Cmd {
	// Not CommandContext: its owner ends it, in its own order.
	cmd := exec.Command(l.command[0], l.command[1:]...) //nolint:noctx // a keeper outlives the request that starts it
	cmd.Dir = "/"
	cmd.Env = []string{keeperapi.OwnerEnv + "=" + mark}
	for _, k := range passedEnv {
		if v, ok := os.LookupEnv(k); ok {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	// A group of its own: a terminal's interrupt is the server's to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if u != nil {
		cmd.SysProcAttr.Credential = u.credential()
	}
	cmd.WaitDelay = 5 * time.Second // a child of the keeper's may hold its standard error
	return cmd
}

// Remove removes what a rig's processes, which have ended, left on disk, and then
// gives its uid back.
func (l *Local) Remove(id string) error {
	if err := errors.Join(os.RemoveAll(l.layout.Rig(id)), os.RemoveAll(l.layout.Disk(id))); err != nil {
		return err
	}
	return sweep.Release(l.owner, id)
}

// End kills what is left of a rig's processes, waits for their end, and removes
// their directories.
func (l *Local) End(ctx context.Context, id string) error {
	_, err := sweep.Kill(ctx, l.owner, id)
	if err != nil && !sweepSupported {
		err = nil // the keeper was waited for, and its VM ends with it
	}
	return errors.Join(err, l.Remove(id))
}

// Sweep ends every process that an earlier server of this data directory left,
// removes every directory of a rig, and returns how many processes it killed.
func (l *Local) Sweep(ctx context.Context) (int, error) {
	n, err := sweep.Kill(ctx, l.owner, "")
	if err != nil && !sweepSupported {
		err = nil
	}
	for _, dir := range []string{l.layout.Runtime(), l.layout.Disks()} {
		entries, rerr := os.ReadDir(dir)
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return n, err
	}
	return n, sweep.Release(l.owner, "")
}

// Resident returns the measured memory of the processes of every rig in bytes,
// by rig id. Memory that rigs share counts by the share that is each one's own.
func (l *Local) Resident() (map[string]int64, error) {
	pids, err := sweep.Find(l.owner, "")
	if err != nil {
		return nil, err
	}
	sum := map[string]int64{}
	for pid, id := range pids {
		n, err := sweep.Resident(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		sum[id] += n
	}
	return sum, nil
}

// RunTask runs a keeper in template or probe mode to its end and passes its
// events to event. When ctx ends, so does the keeper. A TemplateDir is given to
// the keeper's user for the time and taken back, readable, afterwards.
func (l *Local) RunTask(ctx context.Context, cfg keeperapi.Config, event func(keeperapi.Event)) error {
	if cfg.RigID == "" {
		cfg.RigID = string(cfg.Mode) + "-" + rig.NewID()
	}
	cfg.Owner = sweep.Mark(l.owner, cfg.RigID)
	cfg.RuntimeDir, cfg.DiskDir, cfg.Socket = l.layout.Rig(cfg.RigID), l.layout.Disk(cfg.RigID), l.layout.KeeperSocket(cfg.RigID)
	u, err := l.directories(cfg.RigID)
	if err == nil && cfg.TemplateDir != "" {
		err = give(cfg.TemplateDir, u)
	}
	if err == nil {
		err = l.runTask(ctx, cfg, u, event)
	}
	// Also when ctx is what ended it.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	ended := l.End(end, cfg.RigID)
	err = errors.Join(err, ended)
	if ended == nil && cfg.TemplateDir != "" && l.user != nil { // nobody of that user's is at it any more
		err = errors.Join(err, takeBack(cfg.TemplateDir))
	}
	return err
}

func (l *Local) runTask(ctx context.Context, cfg keeperapi.Config, u *User, event func(keeperapi.Event)) error {
	klog, err := openKeeperLog(filepath.Join(cfg.DiskDir, "keeper.log"), l.log.With("task", cfg.RigID))
	if err != nil {
		return err
	}
	defer klog.Close()
	cmd := l.process(cfg.Owner, u)
	cmd.Stderr = klog
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := confine.Start(cmd); err != nil {
		return rig.Errorf(rig.CodeBackendFailure, "the keeper did not start: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may just have ended
	defer stop()
	werr := json.NewEncoder(stdin).Encode(cfg) // open afterwards: it is the task's lifeline
	var failure *rig.Problem
	rerr := ReadEvents(stdout, func(e keeperapi.Event) {
		if e.Phase == rig.Failed && e.Error != nil {
			failure = e.Error
		}
		if event != nil {
			event(e)
		}
	})
	if rerr != nil {
		_ = cmd.Process.Kill() // it may just have ended
	}
	err = cmd.Wait()
	stdin.Close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failure != nil:
		return failure
	case rerr != nil:
		return rig.Errorf(rig.CodeBackendFailure, "the keeper said what the server does not understand: %w", rerr)
	case err != nil:
		return rig.Errorf(rig.CodeBackendFailure, "the keeper failed: %w: %s", errors.Join(err, werr), klog.Tail())
	}
	return nil
}

// ReadEvents passes the events of a keeper (JSON lines) to f until the stream
// ends. Lines are bounded and decoded strictly.
func ReadEvents(r io.Reader, f func(keeperapi.Event)) error {
	sc := newLines(r, maxTaskLine)
	for sc.Scan() {
		if len(sc.Bytes()) == 0 {
			continue // a heartbeat
		}
		var e keeperapi.Event
		if err := wire.DecodeStrict(sc.Bytes(), &e); err != nil {
			return err
		}
		f(e)
	}
	return sc.Err()
}

// takeBack makes a directory that the keeper's user filled root's again, for
// all to read: the keepers to come must not be able to change it.
func takeBack(dir string) error {
	if err := os.Chown(dir, os.Getuid(), os.Getgid()); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return rig.Errorf(rig.CodeIntegrity, "template: %s is not a regular file", strconv.Quote(e.Name()))
		}
		// Another name of a file outside would become root's, for all to read.
		fi, err := root.Lstat(e.Name())
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Nlink != 1 {
			return rig.Errorf(rig.CodeIntegrity, "template: %s has more than one name", strconv.Quote(e.Name()))
		}
		if err := root.Lchown(e.Name(), os.Getuid(), os.Getgid()); err != nil {
			return err
		}
		if err := root.Chmod(e.Name(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
