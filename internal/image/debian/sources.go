package debian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Keyring is Debian's, from the package debian-archive-keyring, which Ubuntu has too.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Suites are the releases that images are built of, the default first.
var Suites = []string{"bookworm", "trixie"}

// Sources say where packages come from.
type Sources struct {
	Suite   string
	Mirrors []string // lines of a sources.list; none: mmdebstrap's default for the suite
	Options []string // apt options of the host that reaching the mirrors takes, such as a proxy
}

// HostSources returns the sources of this host: its own where it runs one of the
// Suites, the default otherwise.
func HostSources(ctx context.Context) (Sources, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Sources{}, err
	}
	src := Sources{Suite: Suites[0]}
	options, err := output(ctx, "apt-config", "dump", "--format", `%F "%v"%n`, "Acquire")
	if err != nil {
		return Sources{}, err
	}
	src.Options = transportOptions(options)
	suite := debianSuite(release)
	if suite == "" {
		return src, nil
	}
	src.Suite = suite
	targets, err := output(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN)\t$(CODENAME)\t$(RELEASE)\t$(COMPONENT)\t$(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return Sources{}, err
	}
	src.Mirrors = mirrors(targets, suite)
	return src, nil
}

// debianSuite returns the code name of a Debian that is one of the Suites.
func debianSuite(osRelease []byte) string {
	vars := map[string]string{}
	for line := range strings.Lines(string(osRelease)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[k] = strings.Trim(v, `"'`)
		}
	}
	if c := vars["VERSION_CODENAME"]; vars["ID"] == "debian" && slices.Contains(Suites, c) {
		return c
	}
	return ""
}

// mirrors picks Debian's own archives for the suite, its updates and its security updates out
// of the host's index targets. Third parties' archives are of no use: only
// Debian's keyring is trusted for the image.
func mirrors(targets, suite string) []string {
	var lines []string
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 {
			continue
		}
		origin, codename, release, component, uri := f[0], f[1], f[2], f[3], f[4]
		known := !strings.HasPrefix(origin, "$(") // the host has fetched its lists
		if !known {
			codename = release
		}
		path := strings.TrimSuffix(uri, "/")
		switch {
		case known && origin != "Debian",
			!known && !strings.HasSuffix(path, "/debian") && !strings.HasSuffix(path, "/debian-security"),
			component != "main",
			codename != suite && codename != suite+"-updates" && codename != suite+"-security",
			!strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://"):
			continue
		}
		l := fmt.Sprintf("deb [signed-by=%s] %s %s main", Keyring, uri, codename)
		if !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+suite+" main") }) {
		return nil // updates alone make no system
	}
	return lines
}

// transportOptions picks what says how to reach a mirror out of apt's configuration.
func transportOptions(dump string) []string {
	var opts []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, " ")
		low := strings.ToLower(name)
		if value == `""` || strings.HasSuffix(name, "::") {
			continue
		}
		for _, p := range []string{"acquire::http::", "acquire::https::", "acquire::check-valid-until", "acquire::check-date", "acquire::retries", "acquire::forceipv"} {
			if strings.HasPrefix(low, p) {
				opts = append(opts, line)
				break
			}
		}
	}
	return opts
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		if msg := lastLine(stderr.String()); msg != "" {
			err = fmt.Errorf("%w: %s", err, msg)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

func lastLine(s string) string {
	last := ""
	sc := bufio.NewScanner(strings.NewReader(s))
	for sc.Scan() {
		if l := strings.TrimSpace(sc.Text()); l != "" {
			last = l
		}
	}
	return last
}
