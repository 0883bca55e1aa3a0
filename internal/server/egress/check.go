package egress

import (
	"math"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"rigs/internal/rig"
)

var (
	reason   = regexp.MustCompile(`^[a-zA-Z]{1,32}$`)
	host     = regexp.MustCompile(`^[ -~]{1,256}$`)
	verdicts = []string{"allow", "deny"}
	protocol = []string{"tcp", "udp", "icmp", "ipv6", "dns", "other"}
)

// Check reports whether an event of a keeper's can be believed to be one of the
// gate's. A time far from now is replaced by now.
func Check(e *rig.EgressEvent, now time.Time) bool {
	ok := e.Seq > 0 && slices.Contains(verdicts, e.Verdict) && reason.MatchString(e.Reason) && slices.Contains(protocol, e.Protocol) &&
		(e.Host == "" || host.MatchString(e.Host)) && (e.Address == "" || isAddress(e.Address)) &&
		e.Port >= 0 && e.Port <= 65535 && e.BytesIn >= 0 && e.BytesOut >= 0 && e.Count >= 0 &&
		e.Seconds >= 0 && !math.IsInf(e.Seconds, 0) && !math.IsNaN(e.Seconds)
	if d := now.Sub(e.Time); d > 24*time.Hour || d < -time.Minute {
		e.Time = now.UTC()
	}
	return ok
}

func isAddress(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return len(s) <= 64
	}
	_, err := netip.ParseAddrPort(s)
	return err == nil && len(s) <= 64
}
