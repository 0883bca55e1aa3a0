package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rigs/internal/rig"
)

func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func home(t *testing.T, yaml string) string {
	t.Helper()
	dir := t.TempDir()
	if yaml != "" {
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAFlagBeatsAVariableBeatsTheFileBeatsTheDefault(t *testing.T) {
	dir := home(t, "listen: 127.0.0.1:3\nlogLevel: debug\nmemoryBudgetMB: 4096\n")
	c, err := Load(map[string]string{"listen": "127.0.0.1:1"},
		env(map[string]string{"RIGS_HOME": dir, "RIGS_LISTEN": "127.0.0.1:2", "RIGS_LOG_LEVEL": "warn"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ what, got, want string }{
		{"flag", c.Listen, "127.0.0.1:1"}, {"variable", c.LogLevel, "warn"}, {"default", c.LogFormat, "text"}, {"data dir", c.DataDir, dir}, {"cache", c.CacheDir, dir},
	} {
		if x.got != x.want {
			t.Errorf("%s: %q, want %q", x.what, x.got, x.want)
		}
	}
	if c.MemoryBudgetMB != 4096 {
		t.Errorf("file: %d", c.MemoryBudgetMB)
	}
}

func TestAMistakeInTheFileIsNamedWithTheFile(t *testing.T) {
	for _, x := range []struct{ yaml, names string }{
		{"memoryBudgteMB: 1\n", "memoryBudgteMB"},
		{"surfaces:\n  terminal:\n    ram: 5\n", "ram"},
		{"surfaces:\n  terminl:\n    memoryMB: 512\n", "terminl"},
		{"surfaces:\n  terminal:\n    memoryMB: 5\n", "surfaces.terminal.memoryMB"},
		{"listen: [1, 2]\n", "listen"},
	} {
		dir := home(t, x.yaml)
		_, err := Load(map[string]string{"dataDir": dir}, env(nil))
		if err == nil || !strings.Contains(err.Error(), x.names) || !strings.Contains(err.Error(), filepath.Join(dir, FileName)) {
			t.Errorf("%q: %v", x.yaml, err)
		}
	}
}

func TestAValueThatCannotBeIsRefused(t *testing.T) {
	for _, x := range []struct{ key, value string }{
		{"listen", "7878"}, {"listen", "example.com:80"}, {"listen", "127.0.0.1:70000"}, {"allowedHosts", "a.test:80"}, {"allowedHosts", "*.test"},
		{"memoryBudgetMB", "lots"}, {"memoryBudgetMB", "12"}, {"logLevel", "loud"}, {"logFormat", "xml"}, {"nonsense", "1"},
	} {
		_, err := Load(map[string]string{"dataDir": home(t, ""), x.key: x.value}, env(nil))
		if err == nil || rig.AsProblem(err).Field != x.key {
			t.Errorf("%s=%s: %v", x.key, x.value, err)
		}
	}
}

func TestASurfacesDefaultsCanBeChanged(t *testing.T) {
	c, err := Load(map[string]string{"dataDir": home(t, "surfaces:\n  terminal:\n    memoryMB: 1024\n")}, env(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := rig.Terminal.Defaults()
	want.MemoryMB = 1024
	if got := c.Resources(rig.Terminal); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := c.Resources(rig.Browser); got != rig.Browser.Defaults() {
		t.Errorf("browser: %+v", got)
	}
}

func TestNamesOfHostsAreInOneForm(t *testing.T) {
	c, err := Load(map[string]string{"dataDir": home(t, ""), "allowedHosts": "Rigs.Example.COM., b.test"}, env(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.AllowedHosts, " "); got != "rigs.example.com b.test" {
		t.Error(got)
	}
}
