package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/follow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/observe"
	"github.com/sigma-scheduler/sigma/flow/tune"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

const (
	defaultBind = "127.0.0.1:9907"
	reportFile  = "report.json"
	// looked is the period at which new and deleted interfaces are found and silent flows end.
	looked = time.Second
	// gathered is how long records wait in the kernel's buffer, which holds ten thousand. To wait there for each took 4
	// % of a core at some hundred records a second: Go's scheduler checks a thread that waits in the kernel, at first
	// every 20 µs.
	gathered = 100 * time.Millisecond
)

var errMissing = errors.New("this machine lacks what the agent needs")

type options struct {
	observe      bool
	order, keep  bool
	policy       bool
	nodeName     string
	floor        float64
	pins         string
	interfaces   []string
	uplink, rate string
	bands        int
	node         node.Options
	every        time.Duration
	out          string
	bind         string
	kubeconfig   string
	pages        page.Pages
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.observe, "observe", false, "read only")
	flags.BoolVar(&o.order, "order", false, "observe, and order the uplink by the thresholds that it finds; a time of --observe should come before")
	flags.BoolVar(&o.policy, "policy", false, "observe, and order the uplink as the FlowPolicy of this node says, which may be: not at all")
	flags.StringVar(&o.nodeName, "node-name", "", "with --policy: name of this node's object (required)")
	flags.Float64Var(&o.floor, "floor", node.DefaultFloor, "with --order: share of the rate that each band has at least, .001 to .05")
	flags.BoolVar(&o.keep, "keep-order", false, "with --order: leave the order on when the agent ends, until sigma-flow order off")
	flags.StringVar(&o.pins, "pins", node.DefaultPins, "with --order or --policy: folder of a bpffs where the kernel keeps the order")
	flags.StringSliceVar(&o.interfaces, "interface", nil, "interfaces to watch, NAME, NAME/ingress or NAME/egress; empty: the host's ends of all pods' veth pairs, also of pods to come")
	flags.StringVar(&o.uplink, "uplink", "", "interface whose load counts; empty: that of the default route")
	flags.StringVar(&o.rate, "rate", "", "bits per second of the uplink, such as 10G; empty: what it says itself")
	flags.IntVar(&o.bands, "bands", tune.DefaultBands, "bands that are proposed")
	flags.DurationVar(&o.node.Gap, "gap", node.DefaultGap, "a message of a connection has ended so long after all of it was acknowledged, 20ms to 1h; 1s: silences below a second count for nothing")
	flags.IntVar(&o.node.Flows, "flows", node.DefaultFlows, "flows at a time; beyond, the oldest make room")
	flags.IntVar(&o.node.Ring, "ring-bytes", node.DefaultRing, "bytes of the buffer between kernel and agent, a power of two")
	flags.DurationVar(&o.every, "every", time.Minute, "how often it says what bands would give")
	flags.StringVar(&o.out, "out", "", "folder for report and sizes, which is made; empty: none")
	flags.StringVar(&o.bind, "metrics-bind-address", defaultBind, "address of /metrics, /report, /healthz and /readyz")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file, for --policy and to ask who may read metrics; empty: the pod's service account")
	o.pages.AddFlags(flags)
	plain := flags.Lookup("metrics-plain-http")
	o.pages.Plain, plain.DefValue = true, "true"
}

func (o *options) check() (rate float64, err error) {
	switch {
	case count(o.observe, o.order, o.policy) != 1:
		return 0, errors.New("say --observe, which only reads, --order or --policy")
	case !o.order && (o.keep || o.floor != node.DefaultFloor):
		return 0, errors.New("--keep-order and --floor are for --order")
	case o.observe && o.pins != node.DefaultPins:
		return 0, errors.New("--pins is for --order and --policy")
	case o.policy == (o.nodeName == ""):
		return 0, errors.New("--policy needs --node-name, the name of this node's object, and nothing else does")
	case o.policy && o.pins == "":
		return 0, errors.New("--policy needs --pins")
	case o.order && (o.rate == "" || o.pins == ""):
		return 0, errors.New("--order needs --rate, what the uplink really sends, a few percent below its nominal rate, and --pins")
	case !(o.floor >= node.LeastFloor && o.floor <= node.MostFloor):
		return 0, fmt.Errorf("--floor %v: want %v to %v", o.floor, node.LeastFloor, node.MostFloor)
	case o.every < time.Second:
		return 0, fmt.Errorf("--every %v: want at least 1s", o.every)
	case o.policy && o.every > time.Minute:
		return 0, fmt.Errorf("--every %v: want at most 1m with --policy: central counts nodes that have written within three minutes", o.every)
	case o.node.Gap < time.Millisecond || o.node.Gap > node.MostGap:
		return 0, fmt.Errorf("--gap %v: want at least 1ms and at most %v", o.node.Gap, node.MostGap)
	case !o.observe && o.node.Gap < node.LeastGap:
		return 0, fmt.Errorf("--gap %v: want at least %v to order", o.node.Gap, node.LeastGap)
	case o.node.Flows < 1:
		return 0, fmt.Errorf("--flows %d: want at least 1", o.node.Flows)
	case o.node.Ring < os.Getpagesize() || o.node.Ring&(o.node.Ring-1) != 0:
		return 0, fmt.Errorf("--ring-bytes %d: want a power of two from %d on", o.node.Ring, os.Getpagesize())
	case o.bands < 2 || o.bands > flow.MostBands:
		return 0, fmt.Errorf("--bands %d: want 2 to %d", o.bands, flow.MostBands)
	}
	if o.rate != "" {
		if rate, err = flow.ParseAmount(o.rate); err != nil {
			return 0, fmt.Errorf("--rate %w", err)
		}
		if !o.observe && (rate < node.LeastRate || rate > node.MostRate) {
			return 0, fmt.Errorf("--rate %s: want %sbit/s to %sbit/s to order", o.rate, flow.FormatAmount(node.LeastRate), flow.FormatAmount(node.MostRate))
		}
	}
	return rate, o.pages.Validate("--metrics-bind-address", o.bind)
}

func count(flags ...bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// run observes until ctx ends.
func (o *options) run(ctx context.Context) error {
	rate, err := o.check()
	if err != nil {
		return err
	}
	if err := node.Missing(node.Probe()); err != nil {
		return fmt.Errorf("nothing is observed: %w", err)
	}
	uplink, err := node.FindUplink(o.uplink)
	if err != nil {
		return fmt.Errorf("--uplink: %w", err)
	}
	rate = cmp.Or(rate, uplink.Rate)
	a := &agent{options: o, uplink: uplink.Name, rate: rate, written: map[string]bool{}}
	if a.watcher, err = observe.NewWatcher(rate, uplink.Queue, o.bands); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if o.policy {
		config, err := clusterConfig(o.kubeconfig)
		if err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
		order := node.OrderOptions{Uplink: a.uplink, Rate: rate, Gap: o.node.Gap, Flows: o.node.Flows, Pins: o.pins}
		if a.follower, err = follow.New(config, follow.Options{Node: o.nodeName, Kernel: &kernel{order, o.rate != ""}, Hinter: &a.hinter, Now: time.Now}); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	if a.observer, err = node.Open(o.node); err != nil {
		return err
	}
	if err := a.watch(); err != nil {
		return errors.Join(err, a.observer.Close())
	}
	if o.order {
		if err := a.takeOver(); err != nil {
			return errors.Join(err, a.observer.Close())
		}
	}
	glog.Infof("watching %d interfaces, uplink %s of %sbit/s; %s", a.observer.Watched(), a.uplink, flow.FormatAmount(rate), a.says())
	all, ctx := errgroup.WithContext(ctx)
	records := make(chan flow.Record, 4096)
	all.Go(func() error {
		defer close(records)
		fetch := time.NewTicker(gathered)
		defer fetch.Stop()
		a.observer.SetDeadline(time.Now())
		for {
			r, err := a.observer.Read()
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				<-fetch.C
			case errors.Is(err, os.ErrClosed):
				return nil
			case err != nil:
				return err
			default:
				records <- r
			}
		}
	})
	all.Go(func() error { return a.loop(ctx, records) })
	all.Go(func() error { return a.serve(ctx) })
	if a.follower != nil {
		all.Go(func() error { return a.follower.Run(ctx) })
	}
	return errors.Join(all.Wait(), a.release())
}

// An agent is changed by its loop alone; other goroutines read last and evicted.
type agent struct {
	*options
	uplink   string
	rate     float64
	mine     uint64 // id of the order that this agent has set last, 0 = none
	observer *node.Observer
	watcher  *observe.Watcher
	hinter   hinter
	follower *follow.Runner // nil without --policy
	last     atomic.Pointer[observe.Report]
	evicted  atomic.Uint64
	written  map[string]bool // files of sizes
	trouble  string          // last reported error of interfaces
	told     uint64          // bytes, reported to the follower
}

func (a *agent) loop(ctx context.Context, records <-chan flow.Record) error {
	look, tell := time.NewTicker(looked), time.NewTicker(a.every)
	defer look.Stop()
	defer tell.Stop()
	a.look(time.Now())
	for {
		select {
		case <-ctx.Done():
			err := a.observer.Finish()
			for r := range records {
				a.add(time.Now(), r)
			}
			a.look(time.Now())
			return errors.Join(err, a.tell(time.Now(), true), a.observer.Close())
		case r, ok := <-records:
			if !ok {
				return a.observer.Close() // the reader has failed
			}
			a.add(time.Now(), r)
		case now := <-look.C:
			if err := a.watch(); err != nil {
				a.complain(err)
			} else {
				a.trouble = ""
			}
			a.look(now)
		case now := <-tell.C:
			if err := a.tell(now, false); err != nil {
				glog.Errorf("cannot report: %v", err)
			}
		}
	}
}

// complain logs a trouble once.
func (a *agent) complain(err error) {
	if text := err.Error(); text != a.trouble {
		a.trouble = text
		glog.Warningf("interfaces: %v", err)
	}
}

// watch watches the present interfaces.
func (a *agent) watch() error {
	list, err := node.Interfaces(a.interfaces)
	if err != nil {
		return err
	}
	return a.observer.Watch(list)
}

// look takes the flows that fell silent, and the uplink's counter.
func (a *agent) look(now time.Time) {
	ended, evicted, err := a.observer.Sweep()
	if err != nil {
		a.complain(err)
	}
	for _, r := range ended {
		a.add(now, r)
	}
	a.evicted.Store(max(a.evicted.Load(), evicted))
	uplink, err := node.FindUplink(a.uplink)
	if err != nil {
		a.complain(err)
		return
	}
	a.watcher.Uplink(now, uplink.Sent)
}

// tell makes a report, and publishes it in the log, to readers and in files. The last one orders nothing.
func (a *agent) tell(now time.Time, last bool) error {
	r, err := a.watcher.Report(now, a.uplink)
	if err != nil {
		return err
	}
	if r.Health, err = a.health(); err != nil {
		return err
	}
	r.Hints = a.hinter.states()
	if a.order && !last {
		err = a.apply(r)
	}
	if a.follower != nil {
		a.saw(r)
	}
	a.last.Store(r)
	glog.Info(r.Sentence())
	if err != nil || a.out == "" {
		return err
	}
	if err := a.writeSizes(r); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(a.out, reportFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	})
}

// saw passes the traffic since the last report to the follower.
func (a *agent) saw(r *observe.Report) {
	t := follow.Traffic{Sizes: a.watcher.Sketch(), Bytes: int64(r.Bytes - a.told), Load: r.Load}
	a.told = r.Bytes
	if r.Sent != nil {
		t.BitsPerSecond = *r.Sent
	}
	a.follower.Saw(t)
}

// takeOver makes an active order this agent's, or returns why no order is possible.
func (a *agent) takeOver() error {
	if err := node.Orderable(a.uplink, a.pins); err != nil {
		return err
	}
	s, err := node.ReadOrder(a.pins)
	switch {
	case errors.Is(err, node.ErrNoOrder):
		return nil
	case err != nil:
		return err
	case s.Uplink == "": // it is deleted, and the first decision replaces the order
		return nil
	case len(s.Thresholds) != a.bands-1:
		return fmt.Errorf("--bands %d: an order of %d bands is on; sigma-flow order off takes it off", a.bands, len(s.Thresholds)+1)
	}
	a.watcher.InForce(s.Thresholds)
	return a.turnOn(s.Thresholds)
}

func (a *agent) turnOn(t flow.Thresholds) error {
	id, err := node.TurnOn(node.OrderOptions{Uplink: a.uplink, Rate: a.rate, Thresholds: t, Floor: a.floor, Gap: a.node.Gap, Flows: a.node.Flows, Pins: a.pins})
	if err == nil {
		a.mine = id
	}
	return err
}

// apply replaces the active thresholds by the report's, unless they are active already.
func (a *agent) apply(r *observe.Report) error {
	if r.Thresholds == "" {
		return nil
	}
	t, err := flow.ParseThresholds(r.Thresholds)
	if err != nil {
		return err
	}
	if s, err := node.ReadOrder(a.pins); err != nil || s.ID != a.mine || !s.Shaping || !t.Equal(s.Thresholds) {
		if err := a.turnOn(t); err != nil {
			return fmt.Errorf("the order: %w", err)
		}
		glog.Infof("order on %s: a flow leaves a band after %v bytes; %s", a.uplink, t, r.Reason)
	}
	r.Ordered = true
	return nil
}

// release takes the order off, where it is this agent's.
func (a *agent) release() error {
	if a.keep || a.mine == 0 {
		return nil
	}
	return letGo(a.pins, a.uplink, a.mine)
}

func (a *agent) says() string {
	switch {
	case a.policy:
		return "it is ordered as its FlowPolicy says"
	case !a.order:
		return "nothing is changed"
	case a.mine == 0:
		return "it is ordered once there are thresholds"
	}
	return "it is in order, and stays so"
}

func (a *agent) health() (*observe.Health, error) {
	counts, err := a.observer.Counts()
	if err != nil {
		return nil, err
	}
	seen, counted, err := a.observer.Health()
	if err != nil {
		return nil, err
	}
	h := &observe.Health{Interfaces: a.observer.Watched(), Lost: counts.Lost, Evicted: a.evicted.Load(), Unkept: counts.Unkept, Unparsed: counts.Cut + counts.Fragments}
	if counted > 0 {
		share := float64(seen) / float64(counted)
		h.Seen = &share
	}
	return h, nil
}
