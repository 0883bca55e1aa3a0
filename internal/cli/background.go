package cli

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"rigs/client"
	"rigs/internal/paths"
	"rigs/internal/rig"
)

// background is the server of this user's data directory, running detached
// from any terminal.
type background struct {
	layout paths.Layout
	client *client.Client
}

func newBackground() (*background, error) {
	dir, err := paths.DefaultDataDir()
	if err != nil {
		return nil, err
	}
	l, err := paths.New(dir)
	if err != nil {
		return nil, err
	}
	c, err := client.New(l.ServerSocket(), "")
	if err != nil {
		return nil, err
	}
	return &background{l, c}, nil
}

// find returns the running server, or nil when there is none.
func (b *background) find(ctx context.Context) (*serverProcess, error) {
	p, err := findServer(ctx, b.layout.ServerSocket())
	if err != nil || p == nil {
		return nil, err
	}
	// A server that is alive and does not answer is not one to work with.
	if err := b.client.Health(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// start starts the server and returns when it is ready to be asked. It ends by
// itself when starting fails; its own words are then the error.
func (b *background) start(ctx context.Context, args []string) error {
	mode := os.FileMode(0o700)
	if os.Getuid() == 0 {
		mode = 0o711 // machines run as another user, who must pass through
	}
	if err := os.MkdirAll(b.layout.Data(), mode); err != nil {
		return fmt.Errorf("the data directory: %w: choose another with RIGS_HOME", err)
	}
	log, err := os.OpenFile(b.layout.ServerLog(), os.O_CREATE|os.O_APPEND|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("the server's log: %w", err)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	defer theirs.Close()

	// Not CommandContext: the server outlives this process.
	cmd := exec.Command(self, append([]string{"serve", "--ready-fd=3"}, args...)...) //nolint:noctx // see above
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "RIGS_HOME="+b.layout.Data())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	theirs.Close()

	// One line on the pipe says ready; its end without one says that the server
	// is gone.
	said := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(ready).ReadString('\n')
		said <- err
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		_ = cmd.Wait()                          // its status says no more than ctx does
		return context.Cause(ctx)
	}
	if err == nil {
		return cmd.Process.Release()
	}
	werr := cmd.Wait()
	why := tail(log, from, 12)
	if why == "" {
		why = fmt.Sprint(werr)
	}
	return rig.Errorf(rig.CodeUnavailable, "the server did not start: %s", strings.TrimPrefix(why, "rigs: "))
}

// tail returns what the log says since from: the last error, if it is there in
// a line of ours, or else the last lines.
func tail(log io.ReaderAt, from int64, lines int) string {
	b, err := io.ReadAll(io.NewSectionReader(log, from, 64<<10))
	if err != nil {
		return err.Error()
	}
	s := strings.TrimSpace(string(b))
	if i := strings.LastIndex("\n"+s, "\nrigs: "); i >= 0 {
		return s[i:]
	}
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// stop ends a server and waits until its process is gone; its keepers and
// machines end with it.
func (p *serverProcess) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the server (process %d): %w", p.pid, err)
	}
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("the server (process %d) was told to stop and has not ended: %w", p.pid, err)
	}
	return nil
}

// ours reports whether the server runs the very program that we are; a rebuilt
// one should replace it.
func (p *serverProcess) ours() (bool, error) {
	theirs := "/proc/" + strconv.Itoa(p.pid) + "/exe"
	a, err := os.Stat(theirs)
	if err != nil {
		return false, err
	}
	b, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false, err
	}
	if os.SameFile(a, b) {
		return true, nil
	}
	x, err := digest(theirs)
	if err != nil {
		return false, err
	}
	y, err := digest("/proc/self/exe")
	return x == y, err
}

func digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

var errOtherUser = errors.New("it belongs to another user")
