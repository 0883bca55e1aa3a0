package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/rig"
)

// What mmdebstrap 1.3.5, apt 2.6 and dpkg 1.21 said in a build of November 2026, shortened.
const said = `I: chroot architecture amd64 is equal to the host's architecture
I: running apt-get update...
Get:1 http://mirror.example/debian bookworm InRelease [151 kB]
Get:4 http://mirror.example/debian bookworm/main amd64 Packages [8790 kB]
Fetched 9422 kB in 3s (3424 kB/s)
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Need to get 29.7 MB of archives.
Get:1 http://mirror.example/debian bookworm/main amd64 gcc-12-base amd64 12.2.0-14+deb12u1 [37.6 kB]
Get:2 http://mirror.example/debian bookworm/main amd64 libc6 amd64 2.36-9+deb12u14 [2759 kB]
I: extracting archives...
I: installing essential packages...
Selecting previously unselected package gcc-12-base:amd64.
Preparing to unpack .../gcc-12-base_12.2.0-14+deb12u1_amd64.deb ...
Unpacking gcc-12-base:amd64 (12.2.0-14+deb12u1) ...
Unpacking libc6:amd64 (2.36-9+deb12u14) ...
Setting up gcc-12-base:amd64 (12.2.0-14+deb12u1) ...
Setting up libc6:amd64 (2.36-9+deb12u14) ...
I: installing remaining packages inside the chroot...
0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://mirror.example/debian bookworm/main amd64 git amd64 1:2.39.5-0+deb12u3 [7264 kB]
Unpacking git (1:2.39.5-0+deb12u3) ...
Setting up git (1:2.39.5-0+deb12u3) ...
Processing triggers for libc-bin (2.36-9+deb12u14) ...
I: running --customize-hook in shell: sh -c '
I: cleaning package lists and apt cache...
I: creating tarball...
I: success in 110.2480 seconds
`

func TestProgressIsReadFromWhatToolsSay(t *testing.T) {
	var got []rig.Step
	f := &follower{progress: func(s rig.Step) { got = append(got, s) }}
	for _, b := range []byte(said) { // however the bytes arrive
		f.Write([]byte{b})
	}
	f.flush()
	p := func(text string, done, total int64) rig.Step {
		return rig.Step{Text: text, Done: done, Total: total, Unit: "packages"}
	}
	want := []rig.Step{
		{Text: "Read the package lists"},
		{Text: "Choose the packages of the base system"},
		p("Download gcc-12-base", 1, 2), p("Download libc6", 2, 2),
		{Text: "Unpack the base system"},
		{Text: "Install the base system"},
		p("Unpack gcc-12-base", 1, 2), p("Unpack libc6", 1, 2), p("Install gcc-12-base", 2, 2), p("Install libc6", 2, 2),
		{Text: "Choose the other packages"},
		p("Download git", 1, 1), p("Unpack git", 1, 1), p("Install git", 1, 1),
		{Text: "Set up the system"},
		{Text: "Clean up"},
		{Text: "Store the system"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestProgressNeverExceedsItsTotal(t *testing.T) {
	noise := "0 upgraded, 1 newly installed, 0 to remove\n" + strings.Repeat("Setting up a (1) ...\nGet:99 u s c p amd64 1 [1 B]\n", 5) +
		"Get:99999999999999999999 u s a b c d [1 B]\n99999999999999999999999 upgraded, 99999999999999999999 newly installed\nUnpacking \x1b[31m\n"
	f := &follower{progress: func(s rig.Step) {
		if s.Total > 0 && (s.Done < 0 || s.Done > s.Total) {
			t.Errorf("%+v", s)
		}
	}}
	f.Write([]byte(noise))
	f.Write(bytes.Repeat([]byte("a line without end "), 100_000))
	f.flush()
	if len(f.tail) > tailLines {
		t.Errorf("%d lines are kept", len(f.tail))
	}
}

func TestArgs(t *testing.T) {
	r := Request{
		Sources:  Sources{Suite: "bookworm", Mirrors: []string{"deb http://mirror.example/debian bookworm main"}, Options: []string{`Acquire::http::Proxy "http://proxy.example:3128"`}},
		Packages: []string{"bash", "git"},
	}
	got, err := r.Args("root")
	want := []string{
		"--verbose", "--format=tar", "--mode=root", `--aptopt=Acquire::Languages "none"`, `--aptopt=Acquire::http::Proxy "http://proxy.example:3128"`,
		"--dpkgopt=force-unsafe-io", "--variant=minbase", "--include=bash,git", "--essential-hook=" + slim, "--customize-hook=" + customize,
		"bookworm", "-", "deb http://mirror.example/debian bookworm main",
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err = Request{Sources: Sources{Suite: "bookworm"}, Kernel: "linux-image-cloud-amd64"}.Args("unshare")
	want = []string{
		"--verbose", "--format=tar", "--mode=unshare", "--keyring=" + Keyring, `--aptopt=Acquire::Languages "none"`,
		"--variant=custom", "--customize-hook=" + fetchKernel, "bookworm", "-",
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range []string{"--setup-hook=x", "a b", "/tmp/x.deb", "?essential", "bash=1", "a,b", "UPPER"} {
		if _, err := (Request{Packages: []string{"bash", bad}}).Args("root"); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("package %q: %v", bad, err)
		}
	}
}

func TestMirrorsAreDebiansOwn(t *testing.T) {
	line := func(f ...string) string { return strings.Join(f, "\t") + "\n" }
	deb := func(uri, suite string) string {
		return "deb [signed-by=" + Keyring + "] " + uri + " " + suite + " main"
	}
	cases := map[string]struct {
		targets string
		want    []string
	}{
		"a usual Debian": {
			line("Debian", "bookworm", "bookworm", "main", "http://m.example/debian/") + line("Debian", "bookworm", "bookworm", "contrib", "http://m.example/debian/") +
				line("Debian", "bookworm-updates", "bookworm-updates", "main", "http://m.example/debian/") + line("Debian", "bookworm-security", "bookworm-security", "main", "https://m.example/debian-security/") +
				line("Debian Backports", "bookworm-backports", "bookworm-backports", "main", "http://m.example/debian/"),
			[]string{deb("http://m.example/debian/", "bookworm"), deb("http://m.example/debian/", "bookworm-updates"), deb("https://m.example/debian-security/", "bookworm-security")},
		},
		"a release by another name": {
			line("Debian", "bookworm", "oldstable", "main", "http://m.example/debian/"),
			[]string{deb("http://m.example/debian/", "bookworm")},
		},
		"third parties are left out": {
			line("Debian", "bookworm", "bookworm", "main", "http://m.example/debian/") + line("Docker", "bookworm", "bookworm", "main", "https://other.example/linux/debian/") +
				line(". nodistro", "nodistro", "nodistro", "main", "https://node.example/node/"),
			[]string{deb("http://m.example/debian/", "bookworm")},
		},
		"lists that were never fetched": {
			line("$(ORIGIN)", "$(CODENAME)", "bookworm", "main", "http://m.example/debian") + line("$(ORIGIN)", "$(CODENAME)", "bookworm", "stable", "https://other.example/linux/debian"),
			[]string{deb("http://m.example/debian", "bookworm")},
		},
		"no base archive: the default is used": {line("Debian", "bookworm-security", "bookworm-security", "main", "http://m.example/debian-security/"), nil},
		"files and disks are of no use":        {line("Debian", "bookworm", "bookworm", "main", "file:/srv/debian/") + line("Debian", "bookworm", "bookworm", "main", "cdrom:[Debian]/"), nil},
		"another release":                      {line("Debian", "trixie", "trixie", "main", "http://m.example/debian/"), nil},
		"nothing":                              {"", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, mirrors(c.targets, "bookworm")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHostsAreToldApart(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n":                    "bookworm",
		"PRETTY_NAME=\"x\"\nVERSION_CODENAME=\"trixie\"\nID=debian": "trixie",
		"ID=debian\nVERSION_CODENAME=bullseye\n":                    "",
		"ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n":       "",
		"": "",
	} {
		if got := debianSuite([]byte(release)); got != want {
			t.Errorf("%q is %q, want %q", release, got, want)
		}
	}
}

func TestOnlyOptionsOfTransportArePassedOn(t *testing.T) {
	dump := "Acquire \"\"\nAcquire::http::Proxy \"http://p.example:3128\"\nAcquire::https::Proxy \"\"\nAcquire::Check-Date \"false\"\nAcquire::Languages:: \"de\"\n" +
		"Acquire::http::Pipeline-Depth:: \"1\"\nAcquire::IndexTargets::deb \"\"\nAPT::Get::AllowUnauthenticated \"true\"\nAcquire::AllowInsecureRepositories \"1\"\n"
	want := []string{`Acquire::http::Proxy "http://p.example:3128"`, `Acquire::Check-Date "false"`}
	if d := cmp.Diff(want, transportOptions(dump)); d != "" {
		t.Error(d)
	}
}

func TestFailuresSayWhatHelps(t *testing.T) {
	failure := errors.New("exit status 25")
	cases := []struct {
		tail []string
		code rig.Code
		says string
	}{
		{[]string{"I: running apt-get update...", "Err:1 http://m.example/debian bookworm InRelease", "  Temporary failure resolving 'm.example'", "E: Failed to fetch http://m.example/debian"}, rig.CodeUnavailable, "check the network"},
		{[]string{"dpkg: error processing archive x (--unpack):", " cannot copy extracted data: failed to write (No space left on device)", "E: dpkg failed"}, rig.CodeCapacity, "disk is full"},
		{[]string{"W: GPG error: http://m.example bookworm InRelease: NO_PUBKEY 648ACFD622F3D138", "E: The repository is not signed."}, rig.CodeIntegrity, "keyring"},
		{[]string{"E: Unable to locate package nosuch"}, rig.CodeUnavailable, "does not have a package"},
		{[]string{"newuidmap: write to uid_map failed: Operation not permitted", "E: child had a non-zero exit status: 1"}, rig.CodeUnavailable, "usermod"},
		{[]string{"something odd"}, rig.CodeInternal, "something odd"},
		{nil, rig.CodeInternal, "said nothing"},
	}
	for _, c := range cases {
		err := explain(failure, c.tail)
		if rig.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %s %v; want %s and %q", c.tail, rig.CodeOf(err), err, c.code, c.says)
		}
	}
}

func TestSubordinateRanges(t *testing.T) {
	const file = "alice:100000:65536\n1001:165536:65536\n"
	for who, want := range map[[2]string]bool{{"alice", "1000"}: true, {"bob", "1001"}: true, {"carol", "1002"}: false, {"ali", "10"}: false} {
		if got := hasRange(file, who[0], who[1]); got != want {
			t.Errorf("%v has a range: %v", who, got)
		}
	}
}

// standIn puts a script in mmdebstrap's place.
func standIn(t *testing.T, script string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := checkUnshare(); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

var request = Request{Sources: Sources{Suite: "bookworm", Mirrors: []string{"deb http://m.example/debian bookworm main"}}, Packages: []string{"bash"}, Epoch: time.Unix(86400, 0)}

func TestRunPassesTheStreamOn(t *testing.T) {
	standIn(t, `echo "I: creating tarball..." >&2; echo "$SOURCE_DATE_EPOCH $LC_ALL"; printf tar`)
	var out bytes.Buffer
	var steps []string
	if err := Run(t.Context(), request, &out, func(s rig.Step) { steps = append(steps, s.Text) }); err != nil {
		t.Fatal(err)
	}
	if out.String() != "86400 C.UTF-8\ntar" || !slices.Equal(steps, []string{"Store the system"}) {
		t.Errorf("output %q, steps %q", out.String(), steps)
	}
}

func TestRunTellsWhyItFailed(t *testing.T) {
	standIn(t, `echo "E: apt-get update failed: Could not connect to m.example:80" >&2; exit 25`)
	err := Run(t.Context(), request, &bytes.Buffer{}, nil)
	if rig.CodeOf(err) != rig.CodeUnavailable || !strings.Contains(err.Error(), "Could not connect to m.example:80") {
		t.Errorf("%s: %v", rig.CodeOf(err), err)
	}
}

func TestRunWithoutMmdebstrap(t *testing.T) {
	standIn(t, "")
	t.Setenv("PATH", t.TempDir())
	err := Run(t.Context(), request, &bytes.Buffer{}, nil)
	if rig.CodeOf(err) != rig.CodeUnavailable || os.Geteuid() == 0 && !strings.Contains(err.Error(), "apt install mmdebstrap") {
		t.Errorf("%v", err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, fmt.Errorf("write layer: %w", syscall.ENOSPC) }

func TestRunEndsWhenItsOutputCannotBeKept(t *testing.T) {
	standIn(t, `trap 'exit 1' TERM; while :; do echo more || exit 1; done`)
	if err := Run(t.Context(), request, fullDisk{}, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}

// What mmdebstrap started must be told to end, so that it cleans up and ends itself; it must not be
// told so itself.
func TestCancellationEndsTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "cleaned")
	standIn(t, `trap 'exit 1' TERM
sh -c 'echo $$ >`+dir+`/child; echo "I: running apt-get update..." >&2; exec sleep 600' &
wait $!
echo clean >`+marker+`
exit 1`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, request, &bytes.Buffer{}, func(rig.Step) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("mmdebstrap could not clean up: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("what mmdebstrap had started went on")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
