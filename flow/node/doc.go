// Package node watches the flows of a Linux node by an eBPF program at TCX: the only place with BPF and netlink.
//
// The program (observe.c) reads packets and changes none. It counts the payload of each flow, which is one direction
// of a connection, by interface, addresses, ports and protocol. [Observer] loads it, attaches it to interfaces, and
// returns records of flows. A second program takes the acknowledgements of the other direction: a message of a
// connection has ended when all of it was acknowledged for a while (over, in packet.h). The links to interfaces end
// with the process, however that ends.
//
// Flows that do not fit in the map, the oldest first, and records that find the ring buffer full are counted. [Probe]
// lists the features that a machine lacks.
//
// The object file is made by `go generate` with clang 14 and committed with its bindings; a test makes it again.
package node
