// Package conntrack replaces the module of that name in this repository's programs: it
// dials, without the traces and metrics of connections, which no program here serves.
//
// Its only importer is prometheus/common/config, for the load watcher of the scheduler's
// Trimaran plugins. The replaced module imports golang.org/x/net/trace, whose pages are text
// templates. A template may call any method by its name, so that the linker keeps every
// exported method of every type in sigma-scheduler: 39 MB.
package conntrack

import (
	"context"
	"net"
)

// A DialContextFunc is the signature of [net.Dialer.DialContext].
type DialContextFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// A DialerOption changes the function that [NewDialContextFunc] returns.
type DialerOption func(dial *DialContextFunc)

// NewDialContextFunc returns the function of DialWithDialContextFunc, or that of a dialer
// with defaults.
func NewDialContextFunc(options ...DialerOption) DialContextFunc {
	dial := (&net.Dialer{}).DialContext
	for _, o := range options {
		o(&dial)
	}
	return dial
}

// DialWithDialContextFunc sets the function that dials.
func DialWithDialContextFunc(dial DialContextFunc) DialerOption {
	return func(d *DialContextFunc) { *d = dial }
}

// DialWithName changes nothing: a name is a label of metrics.
func DialWithName(string) DialerOption { return func(*DialContextFunc) {} }

// DialWithTracing changes nothing.
func DialWithTracing() DialerOption { return func(*DialContextFunc) {} }
