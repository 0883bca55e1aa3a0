// Package wire is the one style of talking on every hop (client to server,
// server to keeper, keeper to guest): HTTP with JSON for requests, and an
// upgraded connection for raw streams.
//
// An upgraded connection begins as a GET with "Connection: Upgrade" and
// "Upgrade: rigs-stream", answered by 101, and then carries frames (see Frame)
// in both directions. Relays do not look at frames: they copy bytes.
//
// The hop between keeper and guest is a yamux session on a virtio-serial port;
// both ends serve and dial on it (see Mux).
//
// Trust: whatever comes from below (a guest to its keeper) is hostile. Frames
// are bounded by MaxFrame, JSON by the limit given to ReadJSON, and both are
// decoded strictly.
package wire
