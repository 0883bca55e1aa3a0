// Package rig is the vocabulary of the system: what a rig is, which phases its
// life has, what can be asked of it and how that fails. Server, keeper, client
// and command line all speak in these types; the package imports nothing of
// ours and does no I/O.
//
// JSON names are camelCase, durations are whole seconds (suffix Seconds), sizes
// are bytes unless the name says MB (2^20 bytes), times are RFC 3339 in UTC.
package rig
