package rig

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Surface is what is driven in a rig. The enclosure follows from it.
type Surface string

// The surfaces of SPEC §1.
const (
	Terminal Surface = "terminal"
	Browser  Surface = "browser"
	Desktop  Surface = "desktop"
	Phone    Surface = "phone"
	Mac      Surface = "mac"
)

// Surfaces lists every surface in the order of the specification.
var Surfaces = []Surface{Terminal, Browser, Desktop, Phone, Mac}

// ParseSurface accepts exactly the names of the Surfaces.
func ParseSurface(s string) (Surface, error) {
	if slices.Contains(Surfaces, Surface(s)) {
		return Surface(s), nil
	}
	names := make([]string, len(Surfaces))
	for i, v := range Surfaces {
		names[i] = string(v)
	}
	return "", Errorf(CodeInvalidRequest, "unknown surface %q: it must be one of %s", s, strings.Join(names, ", "))
}

// Engine is a browser's rendering engine; empty for other surfaces.
type Engine string

// The engines of SPEC §14.
const (
	Chromium Engine = "chromium"
	Firefox  Engine = "firefox"
	WebKit   Engine = "webkit"
)

// Engines lists every engine.
var Engines = []Engine{Chromium, Firefox, WebKit}

// Resources bound a rig from its opening to its end.
type Resources struct {
	MemoryMB    int `json:"memoryMB" doc:"Memory of the machine in MB (2^20 bytes)" minimum:"128" maximum:"65536"`
	VCPUs       int `json:"vcpus" doc:"Virtual processors" minimum:"1" maximum:"64"`
	TTLSeconds  int `json:"ttlSeconds" doc:"The rig is closed this long after it was opened, whatever happens inside" minimum:"10" maximum:"604800"`
	IdleSeconds int `json:"idleSeconds" doc:"Unused for this long, the rig is parked; for twice as long, closed" minimum:"10" maximum:"604800"`
	DiskMB      int `json:"diskMB" doc:"The most the rig can write, in MB" minimum:"64" maximum:"1048576"`
}

// Defaults returns the resources of SPEC §1 for a surface.
func (s Surface) Defaults() Resources {
	h, m := func(n int) int { return n * int(time.Hour/time.Second) }, func(n int) int { return n * int(time.Minute/time.Second) }
	switch s {
	case Terminal:
		return Resources{MemoryMB: 512, VCPUs: 2, TTLSeconds: h(8), IdleSeconds: m(45), DiskMB: 8192}
	case Browser:
		return Resources{MemoryMB: 2048, VCPUs: 2, TTLSeconds: h(2), IdleSeconds: m(15), DiskMB: 8192}
	case Desktop, Phone:
		return Resources{MemoryMB: 4096, VCPUs: 4, TTLSeconds: h(2), IdleSeconds: m(15), DiskMB: 16384}
	case Mac:
		return Resources{TTLSeconds: h(8), IdleSeconds: m(45)}
	}
	panic(fmt.Sprintf("rig: no defaults for surface %q", s))
}
