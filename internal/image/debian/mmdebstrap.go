package debian

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rigs/internal/rig"
)

//go:embed slim.sh
var slim string

//go:embed customize.sh
var customize string

//go:embed kernel.sh
var fetchKernel string

// Recipe is what is done to an image's packages; an image that was made by another
// recipe is out of date.
func Recipe() string { return slim + customize }

// Request says what to make.
type Request struct {
	Sources
	Packages []string  // of an image; or
	Kernel   string    // a kernel's metapackage, such as linux-image-cloud-amd64
	Epoch    time.Time // no file of the result is newer: the same packages give the same bytes
}

var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

// Args builds the arguments of mmdebstrap, which writes a tar stream to its
// standard output. It is pure.
func (r Request) Args(mode string) ([]string, error) {
	for _, p := range append(slices.Clone(r.Packages), r.Kernel) {
		if p != "" && !packageName.MatchString(p) {
			return nil, rig.FieldErrorf("packages", "%q is not the name of a Debian package", p)
		}
	}
	args := []string{"--verbose", "--format=tar", "--mode=" + mode}
	if len(r.Mirrors) == 0 {
		args = append(args, "--keyring="+Keyring)
	}
	args = append(args, `--aptopt=Acquire::Languages "none"`)
	for _, o := range r.Options {
		args = append(args, "--aptopt="+o)
	}
	if r.Kernel != "" {
		args = append(args, "--variant=custom", "--customize-hook="+fetchKernel)
	} else {
		// A rig is thrown away: what a crash would cost dpkg is not worth waiting for the disk, here or there.
		args = append(args, "--dpkgopt=force-unsafe-io", "--variant=minbase", "--include="+strings.Join(r.Packages, ","), "--essential-hook="+slim, "--customize-hook="+customize)
	}
	args = append(args, r.Suite, "-")
	return append(args, r.Mirrors...), nil
}

// Run makes what r asks for and writes it to out. When ctx ends, mmdebstrap is told to stop and
// removes what it has made.
func Run(ctx context.Context, r Request, out io.Writer, progress func(rig.Step)) error {
	mode := "root"
	if os.Geteuid() != 0 {
		mode = "unshare"
		if err := checkUnshare(); err != nil {
			return err
		}
	}
	args, err := r.Args(mode)
	if err != nil {
		return err
	}
	if len(r.Mirrors) == 0 {
		if _, err := os.Stat(Keyring); err != nil {
			return rig.Errorf(rig.CodeUnavailable, "Debian's keyring is missing: %w: sudo apt install debian-archive-keyring", err)
		}
	}
	bin, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return rig.Errorf(rig.CodeUnavailable, "mmdebstrap is missing: %w: sudo apt install mmdebstrap", err)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = "/" // readable in the user namespace, which the caller's may not be
	cmd.Env = environment(r)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return interrupt(cmd.Process.Pid) }
	cmd.WaitDelay = cleanUp
	sink := &sink{w: out}
	said := &follower{progress: progress}
	cmd.Stdout, cmd.Stderr = sink, said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start mmdebstrap: %w", err)
	}
	err = cmd.Wait()
	said.flush()
	if err == nil {
		return nil
	}
	// What did not end by itself must not go on without us. Usually there is nothing left.
	if kerr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); kerr != nil && !errors.Is(kerr, syscall.ESRCH) {
		err = errors.Join(err, kerr)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case sink.err != nil:
		return sink.err
	}
	return explain(err, said.tail)
}

// cleanUp is how long mmdebstrap may take to remove a half-made tree.
const cleanUp = time.Minute

// interrupt tells all processes of a group to end but for its leader. mmdebstrap's own
// first process removes the half-made tree when the others have failed; a signal would make it
// leave that lying about.
func interrupt(leader int) error {
	members, err := groupMembers(leader)
	if err != nil || len(members) == 0 {
		return syscall.Kill(-leader, syscall.SIGTERM)
	}
	for _, pid := range members {
		if kerr := syscall.Kill(pid, syscall.SIGTERM); kerr != nil && !errors.Is(kerr, syscall.ESRCH) {
			err = errors.Join(err, kerr)
		}
	}
	return err
}

// groupMembers lists the processes of a group but for its leader (proc(5): the fifth field of
// stat, of which the second may hold anything, in parentheses).
func groupMembers(leader int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var members []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if perr == nil && pid != leader && len(fields) > 2 && fields[2] == strconv.Itoa(leader) {
			members = append(members, pid)
		}
	}
	return members, nil
}

// sink keeps the error of a write, which says more than that mmdebstrap then ended by SIGPIPE.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

func environment(r Request) []string {
	path := os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" // dpkg asks for all of these
	env := append(os.Environ(), "LC_ALL=C.UTF-8", "PATH="+path, "DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "RIGS_KERNEL="+r.Kernel)
	if !r.Epoch.IsZero() {
		env = append(env, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.Epoch.Unix()))
	}
	return env
}

const tailLines = 40

// follower reads mmdebstrap's messages line by line and keeps the last of them.
type follower struct {
	progress func(rig.Step)
	meter    meter
	partial  []byte
	tail     []string
}

const maxLine = 64 << 10

func (f *follower) Write(p []byte) (int, error) {
	f.partial = append(f.partial, p...)
	for {
		i := bytes.IndexByte(f.partial, '\n')
		if i < 0 {
			if len(f.partial) > maxLine {
				f.flush()
			}
			return len(p), nil
		}
		f.line(string(f.partial[:i]))
		f.partial = f.partial[i+1:]
	}
}

// flush takes what is left for a line.
func (f *follower) flush() {
	f.line(string(f.partial))
	f.partial = nil
}

func (f *follower) line(s string) {
	if s = strings.TrimSpace(s); s == "" {
		return
	}
	if step, ok := f.meter.line(s); ok && f.progress != nil {
		f.progress(step)
	}
	if f.tail = append(f.tail, s); len(f.tail) > tailLines {
		f.tail = f.tail[1:]
	}
}

// faults map what apt and mmdebstrap say to what helps.
var faults = []struct {
	says []string
	code rig.Code
	help string
}{
	{[]string{"No space left on device"}, rig.CodeCapacity, "the disk is full: building needs about 1 GB in the temporary directory (TMPDIR) and 500 MB in the data directory"},
	{[]string{"Temporary failure resolving", "Could not resolve", "Could not connect", "Connection timed out", "Unable to connect", "Connection failed", "Connection refused", "Network is unreachable"},
		rig.CodeUnavailable, "the package mirror cannot be reached: check the network, and apt's proxy settings if you need a proxy"},
	{[]string{"NO_PUBKEY", "is not signed", "EXPKEYSIG", "The following signatures"}, rig.CodeIntegrity, "the mirror's signature does not match Debian's keyring: update debian-archive-keyring, and check the clock"},
	{[]string{"Hash Sum mismatch", "File has unexpected size"}, rig.CodeIntegrity, "the mirror sent something else than its index says: try again later, or use another mirror"},
	{[]string{"Unable to locate package", "has no installation candidate", "the archive has no package"}, rig.CodeUnavailable, "the mirror does not have a package that the image needs"},
	{[]string{"newuidmap", "newgidmap", "unshare", "clone(", "user namespace", "uid_map"}, rig.CodeUnavailable, "this user cannot make a user namespace: " + unshareHelp},
}

const unshareHelp = "sudo apt install uidmap; give yourself a range with sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; " +
	"and allow them where the system forbids them (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0); or build as root"

func explain(err error, tail []string) error {
	said := strings.Join(tail, "\n")
	line := complaint(tail)
	for _, f := range faults {
		if slices.ContainsFunc(f.says, func(s string) bool { return strings.Contains(said, s) }) {
			return rig.Errorf(f.code, "mmdebstrap failed: %s: %s", line, f.help)
		}
	}
	return rig.Errorf(rig.CodeInternal, "mmdebstrap failed (%w): %s", err, line)
}

// complaint picks the first error out of the last messages: those after it are its consequences.
func complaint(tail []string) string {
	for _, l := range tail {
		if strings.HasPrefix(l, "E: ") || strings.HasPrefix(l, "Err:") || strings.Contains(l, "No space left on device") {
			return strings.TrimPrefix(l, "E: ")
		}
	}
	if len(tail) == 0 {
		return "it said nothing"
	}
	return tail[len(tail)-1]
}

// checkUnshare finds what an ordinary user lacks for unshare mode, as far as that can be
// seen without trying: a system may allow mmdebstrap what it denies us.
func checkUnshare() error {
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return rig.Errorf(rig.CodeUnavailable, "an image cannot be built as an ordinary user: %w: %s", err, unshareHelp)
		}
	}
	u, err := user.Current()
	if err != nil {
		return fmt.Errorf("find out who we are: %w", err)
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !hasRange(string(data), u.Username, u.Uid) {
			return rig.Errorf(rig.CodeUnavailable, "an image cannot be built as an ordinary user: %s has no range for %s: %s", file, u.Username, unshareHelp)
		}
	}
	return nil
}

// hasRange reads subuid(5).
func hasRange(data, name, uid string) bool {
	for line := range strings.Lines(data) {
		who, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && (who == name || who == uid) {
			return true
		}
	}
	return false
}
