package confine

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// This test binary is also the processes that the tests confine. They say for each
// attempt "name: ok" or "name: what happened".
func TestMain(m *testing.M) {
	switch as := os.Getenv("CONFINE_TEST_AS"); as {
	case "":
		os.Exit(m.Run())
	case "machine": // what a QEMU that was taken over would try
		attempts()
	default:
		f := Files{Program: "/proc/self/exe", Read: []string{os.Getenv("CONFINE_READ")}, Map: []string{os.Getenv("CONFINE_MAP")}, Write: []string{os.Getenv("CONFINE_WRITE")}, Own: []string{os.Getenv("CONFINE_OWN")}}
		if _, err := Keeper(f); err != nil {
			fmt.Println("confined:", err)
			os.Exit(1)
		}
		if as == "keeper" {
			attempts()
			return
		}
		done := make(chan error)
		OnOwnThread(func() {
			if err := Machine(f, true); err != nil {
				done <- err
				return
			}
			c := exec.Command("/proc/self/exe")
			c.Env = append(os.Environ(), "CONFINE_TEST_AS=machine")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			done <- c.Run()
		})
		if err := <-done; err != nil {
			fmt.Println("machine:", err)
		}
	}
}

func attempts() {
	var wg sync.WaitGroup
	say := func(name string, err error) {
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			fmt.Printf("%s: %s\n", name, unix.ErrnoName(errno))
		case err != nil:
			fmt.Printf("%s: %v\n", name, err)
		default:
			fmt.Println(name + ": ok")
		}
	}
	read := func(path string) error {
		_, err := os.ReadFile(path)
		return err
	}
	for _, v := range []string{"READ", "MAP", "WRITE", "OWN", "SECRET"} {
		p := os.Getenv("CONFINE_" + v)
		if v == "WRITE" || v == "OWN" {
			say("write "+v, os.WriteFile(filepath.Join(p, "made"+os.Getenv("CONFINE_TEST_AS")), nil, 0o600))
			continue
		}
		say("read "+v, read(p))
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err == nil {
			say("punch "+v, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1))
			f.Close()
		}
		say("open "+v, err)
		say("truncate "+v, os.Truncate(p, 1))
		say("link "+v, os.Link(p, filepath.Join(os.Getenv("CONFINE_WRITE"), v+os.Getenv("CONFINE_TEST_AS"))))
	}
	server, _ := strconv.Atoi(os.Getenv("CONFINE_SERVER"))
	say("signal", syscall.Kill(server, 0))
	say("memory", read("/proc/"+strconv.Itoa(server)+"/mem"))
	say("environment", read("/proc/"+strconv.Itoa(server)+"/environ"))
	// From a thread that did not exist when the filter came, too.
	wg.Go(func() {
		runtime.LockOSThread()
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(server), 0, 0, 0, 0)
		say("ptrace", nilIfZero(errno))
	})
	wg.Wait()
	say("unshare", unix.Unshare(unix.CLONE_NEWUSER))
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	say("clone", nilIfZero(errno))
	_, _, errno = unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	say("clone3", nilIfZero(errno))
	_, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	say("io_uring", nilIfZero(errno))
	_, _, errno = unix.Syscall(unix.SYS_BPF, 0, 0, 0)
	say("bpf", nilIfZero(errno))
	for name, family := range map[string]int{"inet": unix.AF_INET, "inet6": unix.AF_INET6, "packet": unix.AF_PACKET, "vsock": unix.AF_VSOCK, "unix": unix.AF_UNIX} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		say("socket "+name, err)
		if err == nil {
			unix.Close(fd)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		l.Close()
	}
	c, err := net.Dial("unix", "@"+os.Getenv("CONFINE_ABSTRACT"))
	if err == nil {
		c.Close()
	}
	say("abstract", err)
	say("self", read("/proc/self/environ"))
	for name, option := range map[string]int{"NoNewPrivs": unix.PR_GET_NO_NEW_PRIVS, "Seccomp": unix.PR_GET_SECCOMP} {
		n, err := unix.PrctlRetInt(option, 0, 0, 0, 0)
		fmt.Println(name+":", n, err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	fmt.Println("capabilities:", unix.Capget(&header, &data[0]), data)
	bound := 0
	for c := range unix.CAP_LAST_CAP + 1 {
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil || in != 0 {
			bound++
		}
	}
	fmt.Println("bounding set:", bound)
}

func nilIfZero(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// run starts a process of this binary as placement starts a keeper.
func run(t *testing.T, as string) (said map[string]string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, bytes.Repeat([]byte("x"), 8192), 0o666); err != nil {
			t.Fatal(err)
		}
		return p
	}
	sub := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	name := "rigs-test-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"CONFINE_TEST_AS=" + as, "CONFINE_READ=" + file("read"), "CONFINE_MAP=" + file("map"), "CONFINE_SECRET=" + file("secret"),
		"CONFINE_WRITE=" + sub("write"), "CONFINE_OWN=" + sub("own"), "CONFINE_SERVER=" + strconv.Itoa(os.Getpid()), "CONFINE_ABSTRACT=" + name}
	if d := os.Getenv("GOCOVERDIR"); d != "" {
		c.Env = append(c.Env, "GOCOVERDIR="+d)
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := Start(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	said = map[string]string{}
	for line := range strings.Lines(out.String()) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[k] = strings.TrimSpace(v)
		}
	}
	if t.Failed() || len(said) < 20 {
		t.Fatalf("it said little:\n%s", out.Bytes())
	}
	return said
}

func expect(t *testing.T, said, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if said[k] != v {
			t.Errorf("%s: %q, want %q", k, said[k], v)
		}
	}
}

// common is true of keeper and QEMU, whatever the kernel.
func common() map[string]string {
	w := map[string]string{
		"ptrace": "EPERM", "unshare": "EPERM", "clone": "EPERM", "clone3": "ENOSYS", "io_uring": "EPERM", "bpf": "EPERM",
		"socket packet": "EAFNOSUPPORT", "socket vsock": "EAFNOSUPPORT", "socket unix": "ok",
		"NoNewPrivs": "1 <nil>", "Seccomp": "2 <nil>", "capabilities": "<nil> [{0 0 0} {0 0 0}]",
	}
	if os.Getuid() == 0 {
		w["bounding set"] = "0"
	}
	if ABI() >= 1 {
		for k, v := range map[string]string{
			"read READ": "ok", "open READ": "EACCES", "link READ": "EXDEV", "read MAP": "ok", "open MAP": "ok",
			"read SECRET": "EACCES", "open SECRET": "EACCES", "link SECRET": "EXDEV", "write WRITE": "ok", "memory": "EACCES", "environment": "EACCES",
		} {
			w[k] = v
		}
	}
	if ABI() >= 3 {
		w["truncate READ"], w["truncate MAP"], w["truncate SECRET"] = "EACCES", "EACCES", "EACCES"
	}
	if ABI() >= 6 {
		w["signal"], w["abstract"] = "EPERM", "EPERM"
	}
	return w
}

func TestKeeper(t *testing.T) {
	want := common()
	want["socket inet"], want["socket inet6"], want["write OWN"], want["punch MAP"] = "ok", "ok", "ok", "ok"
	expect(t, run(t, "keeper"), want)
}

func TestMachine(t *testing.T) {
	want := common()
	want["socket inet"], want["socket inet6"], want["punch MAP"] = "EAFNOSUPPORT", "EAFNOSUPPORT", "ENOTSUP" // Linux has one number for both names
	if ABI() >= 1 {
		want["write OWN"] = "EACCES"
	}
	expect(t, run(t, "starter"), want)
}

// The test itself, which starts keepers as a server does, has lost nothing.
func TestTheStarterLosesNothing(t *testing.T) {
	before, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	var started sync.WaitGroup
	for range 20 { // so that every idle thread is asked, the main one, too
		started.Go(func() {
			c := exec.Command("true")
			if err := Start(c); err != nil {
				t.Error(err)
				return
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	started.Wait()
	for _, thread := range []int{os.Getpid(), unix.Gettid()} {
		after, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(thread) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:"} {
			if a, b := line(before, field), line(after, field); a != b || a == "" {
				t.Errorf("thread %d: %q, then %q", thread, a, b)
			}
		}
	}
}

func line(status []byte, field string) string {
	for l := range strings.Lines(string(status)) {
		if strings.HasPrefix(l, field) {
			return l
		}
	}
	return ""
}

func TestLacks(t *testing.T) {
	for abi, want := range map[int]string{0: "no Landlock", 1: "version 1", 5: "version 5"} {
		if got := Lacks(abi); !strings.Contains(got, want) {
			t.Errorf("version %d: %q", abi, got)
		}
	}
	if got := Lacks(6); got != "" {
		t.Errorf("version 6: %q", got)
	}
}
