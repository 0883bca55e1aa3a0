package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"rigs/internal/image/debian"
	"rigs/internal/rig"
)

// definition is what an image is made of (images/NAME.yaml).
type definition struct {
	name   string
	digest string // of the file and of the recipe that builds it

	Description string        `yaml:"description"`
	Surfaces    []rig.Surface `yaml:"surfaces"`
	Packages    []string      `yaml:"packages"`
}

// isDefault reports whether a surface boots this image when nothing else is asked for.
func (d definition) isDefault() bool { return slices.Contains(d.Surfaces, rig.Surface(d.name)) }

// parseDefinition reads a definition strictly: an unknown key is an error.
func parseDefinition(name string, data []byte) (definition, error) {
	d := definition{name: name}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&d); err != nil {
		return definition{}, fmt.Errorf("image definition %s: %w", name, err)
	}
	if !rig.ValidName(name) {
		return definition{}, fmt.Errorf("image definition %q: that cannot be the name of an image", name)
	}
	if len(d.Surfaces) == 0 || len(d.Packages) == 0 {
		return definition{}, fmt.Errorf("image definition %s: it needs surfaces and packages", name)
	}
	for _, s := range d.Surfaces {
		if _, err := rig.ParseSurface(string(s)); err != nil {
			return definition{}, fmt.Errorf("image definition %s: %w", name, err)
		}
	}
	sum := sha256.Sum256(append(slices.Clone(data), debian.Recipe()...))
	d.digest = hex.EncodeToString(sum[:])
	return d, nil
}

// readDefinitions reads all definitions of a directory, sorted by name.
func readDefinitions(dir fs.FS) ([]definition, error) {
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	defs := make([]definition, 0, len(files))
	for _, f := range files {
		data, err := fs.ReadFile(dir, f)
		if err != nil {
			return nil, err
		}
		d, err := parseDefinition(strings.TrimSuffix(path.Base(f), ".yaml"), data)
		if err != nil {
			return nil, err
		}
		defs = append(defs, d)
	}
	if len(defs) == 0 {
		return nil, errors.New("there is no image definition")
	}
	return defs, nil
}
