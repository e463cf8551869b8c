package flow

import (
	"net/netip"
	"time"
)

// A Side is that of a connection that sends the flow.
type Side uint8

// The sides: unknown where the connection was there before the observer.
const (
	UnknownSide Side = iota
	ClientSide
	ServerSide
)

func (s Side) String() string { return [...]string{"unknown", "client", "server"}[s%3] }

// An End is the reason for a record.
type End uint8

// The ends: a flow still runs, its sender has closed the connection, or it was silent for a while.
const (
	Running End = iota
	Finished
	Idle
)

// Protocols of flows.
const (
	TCP = 6
	UDP = 17
)

// A Record holds the traffic of a flow on a node: that of one side of a connection until it closed it or fell
// silent.
type Record struct {
	Interface           string
	Source, Destination netip.AddrPort
	Protocol            uint8
	Side                Side
	Bytes, Packets      uint64 // of payload, and packets with payload
	First, Last         time.Duration
	End                 End
}

// Server returns the port of the server, and which side sent the flow. Where nobody saw the connection
// begin, the lower port is the server's: clients take theirs from 32768 on.
func (r Record) Server() (port uint16, side Side) {
	side = r.Side
	if side == UnknownSide {
		side = ClientSide
		if r.Source.Port() < r.Destination.Port() {
			side = ServerSide
		}
	}
	if side == ServerSide {
		return r.Source.Port(), side
	}
	return r.Destination.Port(), side
}
