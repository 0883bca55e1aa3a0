// Package config is the settings of Rigs: of the server, and of the command
// line where it needs to find one.
//
// A setting comes from a command's flag, else from an environment variable
// (RIGS_…), else from the YAML file config.yaml in the data directory, else it
// has its default. Settings lists them all, with their names. A key of the file
// that is not among them is an error that names the key and the file, and so is
// a value that cannot be: a misspelt limit must not silently be no limit.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"

	"rigs/internal/paths"
	"rigs/internal/rig"
)

// FileName is the name of the file in the data directory.
const FileName = "config.yaml"

// Config is every setting, checked.
type Config struct {
	DataDir        string   // absolute
	CacheDir       string   // absolute; the data directory by default
	Listen         string   // address and port for HTTP; "none" for the socket only
	AllowedHosts   []string // names that the server answers to beside loopback
	MemoryBudgetMB int      // for all rigs together
	AuditKeepDays  int      // how long rows of the audit logs are kept
	AuditMaxRows   int      // how many, in all logs together
	LogLevel       string   // debug, info, warn or error
	LogFormat      string   // text or json
	QEMU           string   // path of the hypervisor; empty: found on PATH
	Guest          string   // path of rigs-guest; empty: beside this program
	Surfaces       map[rig.Surface]Resources
}

// Resources are a surface's defaults that the file sets; zero means SPEC §1's.
type Resources struct {
	MemoryMB    int `yaml:"memoryMB"`
	VCPUs       int `yaml:"vcpus"`
	TTLSeconds  int `yaml:"ttlSeconds"`
	IdleSeconds int `yaml:"idleSeconds"`
	DiskMB      int `yaml:"diskMB"`
}

// Setting is one setting's name in each of its sources.
type Setting struct {
	Key  string // in the file
	Flag string // of 'rigs serve'
	Env  string
	Doc  string
}

// Settings lists the settings that have a flag and a variable. The file has one
// key more: surfaces, with memoryMB, vcpus, ttlSeconds, idleSeconds and diskMB
// for each surface.
var Settings = []Setting{
	{"dataDir", "data-dir", "RIGS_HOME", "directory for the database, disks and the socket (not in the file)"},
	{"cacheDir", "cache-dir", "RIGS_CACHE", "directory for images, kernels and templates; several servers may share it"},
	{"listen", "listen", "RIGS_LISTEN", "address and port for HTTP (127.0.0.1:7878), or none for the socket only"},
	{"allowedHosts", "allowed-hosts", "RIGS_ALLOWED_HOSTS", "names that the server answers to beside localhost, separated by commas"},
	{"memoryBudgetMB", "memory-budget", "RIGS_MEMORY_BUDGET_MB", "memory for all rigs together in MB (12288)"},
	{"auditKeepDays", "audit-keep-days", "RIGS_AUDIT_KEEP_DAYS", "days for which rows of the audit logs are kept (90)"},
	{"auditMaxRows", "audit-max-rows", "RIGS_AUDIT_MAX_ROWS", "how many rows all audit logs have together at most (5000000)"},
	{"logLevel", "log-level", "RIGS_LOG_LEVEL", "debug, info, warn or error"},
	{"logFormat", "log-format", "RIGS_LOG_FORMAT", "text or json"},
	{"qemu", "qemu", "RIGS_QEMU", "path of the hypervisor, if it is not the one on PATH"},
	{"guest", "guest", "RIGS_GUEST", "path of rigs-guest, if it is not beside this program"},
}

// file is the YAML file.
type file struct {
	CacheDir       string                    `yaml:"cacheDir"`
	Listen         string                    `yaml:"listen"`
	AllowedHosts   []string                  `yaml:"allowedHosts"`
	MemoryBudgetMB int                       `yaml:"memoryBudgetMB"`
	AuditKeepDays  int                       `yaml:"auditKeepDays"`
	AuditMaxRows   int                       `yaml:"auditMaxRows"`
	LogLevel       string                    `yaml:"logLevel"`
	LogFormat      string                    `yaml:"logFormat"`
	QEMU           string                    `yaml:"qemu"`
	Guest          string                    `yaml:"guest"`
	Surfaces       map[rig.Surface]Resources `yaml:"surfaces"`
}

// Load reads the settings. flags holds those that were given, by their Key; env
// is os.LookupEnv.
func Load(flags map[string]string, env func(string) (string, bool)) (Config, error) {
	dir, err := dataDir(flags, env)
	if err != nil {
		return Config{}, err
	}
	path := filepath.Join(dir, FileName)
	f, err := readFile(path)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		DataDir: dir, CacheDir: f.CacheDir, Listen: f.Listen, AllowedHosts: f.AllowedHosts, MemoryBudgetMB: f.MemoryBudgetMB,
		AuditKeepDays: f.AuditKeepDays, AuditMaxRows: f.AuditMaxRows,
		LogLevel: f.LogLevel, LogFormat: f.LogFormat, QEMU: f.QEMU, Guest: f.Guest, Surfaces: f.Surfaces,
	}
	for _, s := range Settings {
		for _, from := range []struct {
			name  string
			value func() (string, bool)
		}{
			{s.Env, func() (string, bool) { return env(s.Env) }},
			{"--" + s.Flag, func() (string, bool) { v, ok := flags[s.Key]; return v, ok }},
		} {
			v, ok := from.value()
			if !ok || v == "" && from.name == s.Env {
				continue
			}
			if err := c.set(s.Key, v); err != nil {
				return Config{}, rig.FieldErrorf(s.Key, "setting %s (%s): %w", s.Key, from.name, err)
			}
		}
	}
	for k := range flags {
		if !slices.ContainsFunc(Settings, func(s Setting) bool { return s.Key == k }) {
			return Config{}, rig.FieldErrorf(k, "unknown setting %q", k)
		}
	}
	return c, c.finish(path)
}

func dataDir(flags map[string]string, env func(string) (string, bool)) (string, error) {
	dir := flags["dataDir"]
	if dir == "" {
		dir, _ = env("RIGS_HOME")
	}
	if dir == "" {
		var err error
		if dir, err = paths.DefaultDataDir(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory %q: %w", dir, err)
	}
	return abs, nil
}

func readFile(path string) (file, error) {
	var f file
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return f, nil // what is wrong with the directory is said by who uses it
	}
	if err != nil {
		return f, fmt.Errorf("settings: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(b, &f, yaml.Strict()); err != nil {
		return f, rig.Errorf(rig.CodeInvalidRequest, "settings file %s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return f, nil
}

// set takes the value of a flag or a variable.
func (c *Config) set(key, v string) error {
	switch key {
	case "dataDir": // was taken first: the file is in it
	case "cacheDir":
		c.CacheDir = v
	case "listen":
		c.Listen = v
	case "allowedHosts":
		c.AllowedHosts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	case "memoryBudgetMB":
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is not a number of MB", v)
		}
		c.MemoryBudgetMB = n
	case "auditKeepDays", "auditMaxRows":
		n, err := strconv.Atoi(v)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a number", v)
		}
		if key == "auditKeepDays" {
			c.AuditKeepDays = n
		} else {
			c.AuditMaxRows = n
		}
	case "logLevel":
		c.LogLevel = v
	case "logFormat":
		c.LogFormat = v
	case "qemu":
		c.QEMU = v
	case "guest":
		c.Guest = v
	default:
		return errors.New("unknown")
	}
	return nil
}

func orDefault[T comparable](v *T, d T) {
	if zero := *new(T); *v == zero {
		*v = d
	}
}

// finish fills in the defaults and checks everything.
func (c *Config) finish(path string) error {
	orDefault(&c.CacheDir, c.DataDir)
	orDefault(&c.Listen, "127.0.0.1:7878")
	orDefault(&c.MemoryBudgetMB, 12<<10)
	orDefault(&c.AuditKeepDays, 90)
	orDefault(&c.AuditMaxRows, 5_000_000)
	orDefault(&c.LogLevel, "info")
	orDefault(&c.LogFormat, "text")
	abs, err := filepath.Abs(c.CacheDir)
	if err != nil {
		return err
	}
	c.CacheDir = abs
	bad := func(key, format string, args ...any) error {
		return rig.FieldErrorf(key, "setting %s: %w", key, fmt.Errorf(format, args...))
	}
	if c.Listen != "none" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return bad("listen", "%q is not an address and a port, such as 127.0.0.1:7878", c.Listen)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			return bad("listen", "%q is not a port: %d is the most", port, 65535)
		} else if host != "localhost" && net.ParseIP(host) == nil {
			return bad("listen", "%q is not an IP address (port %d)", host, n)
		}
	}
	for i, h := range c.AllowedHosts {
		h = strings.TrimSuffix(strings.ToLower(h), ".")
		if h == "" || strings.ContainsAny(h, "/*:@ ") {
			return bad("allowedHosts", "%q is not the name of a host: give it without a port and without wildcards", h)
		}
		c.AllowedHosts[i] = h
	}
	if c.MemoryBudgetMB < 128 {
		return bad("memoryBudgetMB", "%d MB are too few for any machine", c.MemoryBudgetMB)
	}
	// A rig lives for seven days at most: none outlives its rows.
	if c.AuditKeepDays < 8 || c.AuditKeepDays > 36500 {
		return bad("auditKeepDays", "%d days: it must be from 8 to 36500", c.AuditKeepDays)
	}
	if c.AuditMaxRows < 10_000 {
		return bad("auditMaxRows", "%d rows are too few to show anything: give 10000 at least", c.AuditMaxRows)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		return bad("logLevel", "%q is none of debug, info, warn, error", c.LogLevel)
	}
	if !slices.Contains([]string{"text", "json"}, c.LogFormat) {
		return bad("logFormat", "%q is neither text nor json", c.LogFormat)
	}
	for s, r := range c.Surfaces {
		if _, err := rig.ParseSurface(string(s)); err != nil {
			return rig.Errorf(rig.CodeInvalidRequest, "settings file %s: surfaces: %w", path, err)
		}
		for _, f := range []struct {
			key         string
			v, low, top int
		}{
			{"memoryMB", r.MemoryMB, 128, 65536}, {"vcpus", r.VCPUs, 1, 64}, {"ttlSeconds", r.TTLSeconds, 10, 604800},
			{"idleSeconds", r.IdleSeconds, 10, 604800}, {"diskMB", r.DiskMB, 64, 1 << 20},
		} {
			if f.v != 0 && (f.v < f.low || f.v > f.top) {
				return rig.Errorf(rig.CodeInvalidRequest, "settings file %s: surfaces.%s.%s is %d: it must be from %d to %d", path, s, f.key, f.v, f.low, f.top)
			}
		}
	}
	return nil
}

// Layout is where things are on disk.
func (c *Config) Layout() (paths.Layout, error) {
	l, err := paths.New(c.DataDir)
	if err != nil || c.CacheDir == c.DataDir {
		return l, err
	}
	return l.WithCache(c.CacheDir)
}

// Resources are a surface's defaults with this file's changes.
func (c *Config) Resources(s rig.Surface) rig.Resources {
	d, o := s.Defaults(), c.Surfaces[s]
	for _, f := range []struct {
		into *int
		v    int
	}{{&d.MemoryMB, o.MemoryMB}, {&d.VCPUs, o.VCPUs}, {&d.TTLSeconds, o.TTLSeconds}, {&d.IdleSeconds, o.IdleSeconds}, {&d.DiskMB, o.DiskMB}} {
		if f.v != 0 {
			*f.into = f.v
		}
	}
	return d
}
