// Command sigma-gate is a proxy in front of a server in its pod. It limits the requests inside at
// once, and measures the pod's usage. The limit may change while it runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/cmd/internal/start"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

type options struct {
	listen, target, admin, metrics string
	limitFile, cgroup              string
	linger, drain                  time.Duration
	readyByTarget                  bool
	gate                           gate.Options
	proxy                          gate.ProxyOptions
	onLeave, forwarded             string
	ending                         *ending
}

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

// looked is how often the file of the limit is read.
const looked = 100 * time.Millisecond

func main() { os.Exit(start.Program(command(&options{}))) }

func command(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sigma-gate --target http://127.0.0.1:PORT",
		Short: "Lets so many requests into a pod at once, and measures what it takes",
		Long: `sigma-gate passes requests on to a server in the same pod, HTTP/1.1 and HTTP/2 without
TLS, and lets at most --limit of them in at once. The others wait, and beyond --queue or
--wait they are answered 503 with Retry-After. Without a limit it measures, and bounds only
slow callers, connections, heads and upgrades. Requests and answers pass as they came, but
for X-Forwarded-For. A request whose caller leaves stays inside while the server works on it,
for --abandoned at most.

The limit changes while it runs: by the admin port, curl -X PUT -d 8 127.0.0.1:9901/limit,
or by --limit-file, where the downward API writes an annotation. What is no limit is
logged, and the last good one stays.

GET /drain of the metrics port answers when no request has been inside since --linger is
over, or --drain is. It is for a preStop hook of the server, which then ends after that. With
the header "Authorization: Bearer TOKEN", where TOKEN is that of the environment variable
SIGMA_DRAIN_TOKEN, callers are told to close their connections meanwhile, and SIGTERM does not
wait for --linger again. A call without it waits just as long, and changes nothing; 8 of them
wait at a time, 2 from one address, and more are answered 503.`,
		Version: start.Version(version),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	o.gate, o.proxy = gate.DefaultOptions(), gate.DefaultProxyOptions()
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", ":8080", "address for requests")
	flags.StringVar(&o.target, "target", "", "server that requests are passed on to, http://HOST:PORT (required); an IPv6 address needs no brackets before a port")
	flags.BoolVar(&o.readyByTarget, "ready-by-target", false, "/readyz also wants that the target takes connections")
	flags.StringVar(&o.admin, "admin", "127.0.0.1:9901", "address of /limit and /window, on loopback; empty = none")
	flags.StringVar(&o.metrics, "metrics", ":9902", "address of /metrics, /healthz and /readyz; empty = none")
	flags.IntVar(&o.gate.Limit, "limit", 0, "requests at once; 0 = any number")
	flags.StringVar(&o.limitFile, "limit-file", "", "file with the limit, which is followed")
	flags.IntVar(&o.gate.Queue, "queue", o.gate.Queue, "requests that wait, at most")
	flags.DurationVar(&o.gate.MaxWait, "wait", o.gate.MaxWait, "how long a request waits, at most")
	flags.DurationVar(&o.proxy.Abandoned, "abandoned", o.proxy.Abandoned, "how long a request whose caller has left stays inside while the server works on it, at most; and how long a caller may take none of its answer")
	flags.StringVar(&o.onLeave, "on-leave", "hold", "for a request whose caller leaves: hold = it stays inside until the server has ended it; cancel = it ends at once, though the server may work on")
	flags.Int64Var(&o.proxy.BodyRate, "body-rate", o.proxy.BodyRate, "bytes a second that a request's body has to come with, after 10 s; 0 = any")
	flags.DurationVar(&o.proxy.BodyLongest, "body-longest", o.proxy.BodyLongest, "how long the gate waits for a request's body in all; 0 = any time")
	flags.IntVar(&o.proxy.Upgrades, "upgrades", o.proxy.Upgrades, "upgraded connections at once, such as WebSockets; they do not count to --limit")
	flags.IntVar(&o.proxy.Connections, "connections", o.proxy.Connections, "connections at once; further ones wait to be accepted")
	flags.StringVar(&o.forwarded, "forwarded", string(o.proxy.Forwarded), "append = the caller's address is added to X-Forwarded-For; keep = nothing is; all = X-Forwarded-Host and X-Forwarded-Proto too where they are missing")
	flags.StringVar(&o.cgroup, "cgroup", "", "name of the server's cgroup below /sys/fs/cgroup, where it can be seen: windows then have cpu and memory")
	flags.DurationVar(&o.linger, "linger", 3*time.Second, "how long new requests are taken after SIGTERM, until no Service sends any")
	flags.DurationVar(&o.drain, "drain", 25*time.Second, "how long requests may take to end after that")
	return cmd
}

func (o *options) check() error {
	if o.target == "" {
		return errors.New("--target is needed: the server that requests are passed on to")
	}
	o.target = bracketed(o.target)
	if err := o.gate.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if o.onLeave != "hold" && o.onLeave != "cancel" {
		return fmt.Errorf("--on-leave %q: want hold or cancel", o.onLeave)
	}
	o.proxy.Target, o.proxy.Cancel, o.proxy.Forwarded = o.target, o.onLeave == "cancel", gate.Forwarded(o.forwarded)
	o.proxy.Failed = func(err error) { glog.Warningf("%s: %v", o.target, err) }
	if err := o.proxy.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if o.proxy.Connections < o.gate.Limit {
		return fmt.Errorf("--connections %d: want at least --limit, %d", o.proxy.Connections, o.gate.Limit)
	}
	if o.drain < 0 || o.linger < 0 {
		return fmt.Errorf("--drain %v, --linger %v: want 0 or more", o.drain, o.linger)
	}
	if o.admin != "" {
		host, _, err := net.SplitHostPort(o.admin)
		if err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("--admin %s: want an address on loopback: whoever reaches it sets the limit", o.admin)
		}
	}
	if o.cgroup != "" {
		o.gate.Usage = gate.Cgroup("/sys/fs/cgroup", o.cgroup)
		if _, err := o.gate.Usage(); err != nil {
			return fmt.Errorf("--cgroup: %w", err)
		}
	}
	return nil
}

// bracketed puts an IPv6 address before a port into brackets, as the downward API writes it without.
func bracketed(target string) string {
	address, ok := strings.CutPrefix(target, "http://")
	i := strings.LastIndexByte(address, ':')
	if !ok || i < 0 || strings.Count(address, ":") < 3 || net.ParseIP(address[:i]) == nil {
		return target
	}
	return "http://" + net.JoinHostPort(address[:i], address[i+1:])
}

// dialled is how long the target has to take a connection: less than the second that a probe waits.
const dialled = 500 * time.Millisecond

// reached returns why the target takes no connection.
func (o *options) reached(ctx context.Context) error {
	to, err := url.Parse(o.target)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: dialled}).DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), "80")))
	if err != nil {
		return err
	}
	return conn.Close()
}

func run(ctx context.Context, o *options) error {
	if err := o.check(); err != nil {
		return err
	}
	g, err := gate.New(o.gate)
	if err != nil {
		return err
	}
	o.ending, err = newEnding(o.linger, o.drain, os.Getenv(tokenVariable), func() (inside, waiting int) {
		inside, waiting, _ = g.Now()
		return inside, waiting
	})
	if err != nil {
		return err
	}
	o.proxy.Ends = o.ending.ends
	proxy, err := gate.NewProxy(g, o.proxy)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	var ready atomic.Bool
	group, inner := errgroup.WithContext(ctx)
	if o.limitFile != "" {
		file := g.Follower(o.limitFile, func(err error) { glog.Warning(err) })
		file.Look() // before the first request
		group.Go(func() error {
			file.Follow(inner, looked)
			return nil
		})
	}
	// The others are there until the last request has ended.
	aside, endAside := context.WithCancel(context.WithoutCancel(ctx))
	defer endAside()
	for _, s := range []struct {
		flag, address string
		serve         func(net.Listener) error
	}{
		{"listen", o.listen, func(l net.Listener) error {
			defer endAside()
			return o.serve(inner, l, proxy)
		}},
		{"admin", o.admin, func(l net.Listener) error { return pages(aside, l, admin(aside, g), adminConnections) }},
		{"metrics", o.metrics, func(l net.Listener) error {
			return pages(aside, l, o.metricsPages(aside, &ready, g, proxy), metricsConnections)
		}},
	} {
		if s.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			return fmt.Errorf("--%s: %w", s.flag, err)
		}
		group.Go(func() error { return s.serve(listener) })
	}
	group.Go(func() error {
		<-inner.Done()
		ready.Store(false)
		return nil
	})
	ready.Store(true)
	glog.Infof("%s before %s, limit %d", o.listen, o.target, g.Limit())
	err = group.Wait()
	if ctx.Err() != nil && err == nil {
		glog.Info("ended: all requests are answered")
	}
	return err
}

// serve passes requests on until ctx ends, and for a while longer; then the requests in progress
// have the rest of the time to end.
func (o *options) serve(ctx context.Context, listener net.Listener, proxy *gate.Proxy) error {
	failed := make(chan error, 1)
	go func() { failed <- proxy.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(o.ending.lingers()):
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain)
	defer cancel()
	if cut := proxy.Shutdown(late); cut > 0 {
		return fmt.Errorf("%s: %d requests and connections were cut off: they took longer than --drain %v", listener.Addr(), cut, o.drain)
	}
	return <-failed
}
