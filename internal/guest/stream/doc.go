// Package stream is the guest's end of an upgraded connection: it reads the
// client's frames strictly, feeds its standard input to a command within the
// window, and copies a command's output without waiting for whoever else holds
// the other end of the pipe.
//
// The peer is the host and is trusted to be who it is, not to be correct: a
// frame that does not fit the protocol ends the stream with a problem that
// says why.
package stream
