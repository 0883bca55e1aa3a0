package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"rigs/internal/keeperapi"
	"rigs/internal/paths"
)

// maxConfig bounds the configuration in bytes: it holds at most some hundred
// egress patterns.
const maxConfig = 1 << 20

// readConfig reads one JSON value from r and leaves what follows unread, as r
// may stay open: it is the lifeline of some modes.
func readConfig(r io.Reader) (keeperapi.Config, error) {
	var c keeperapi.Config
	d := json.NewDecoder(io.LimitReader(r, maxConfig))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	if err := checkConfig(c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

func checkConfig(c keeperapi.Config) error {
	need := map[string]string{"runtimeDir": c.RuntimeDir, "diskDir": c.DiskDir, "machine.qemu": c.Machine.QEMU,
		"boot.kernel": c.Boot.Kernel, "boot.initrd": c.Boot.Initrd, "boot.rootfs": c.Boot.RootFS, "boot.blank": c.Boot.Blank}
	switch c.Mode {
	case keeperapi.ModeRig:
		need["socket"] = c.Socket
		if err := paths.CheckSocket(c.Socket); err != nil {
			return err
		}
		if c.Deadline.IsZero() {
			return errors.New("deadline: a rig needs one")
		}
		if c.HostName == "" {
			return errors.New("hostName: a rig needs one")
		}
	case keeperapi.ModeTemplate:
		need["templateDir"] = c.TemplateDir
	case keeperapi.ModeProbe:
	default:
		return fmt.Errorf("mode %q: it must be rig, template or probe", c.Mode)
	}
	if c.Template != "" {
		need["template"] = c.Template
	}
	for name, p := range need {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("%s %q: it must be an absolute path", name, p)
		}
	}
	return nil
}
