package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

const (
	// startDelay is the time from the decision for a pod until its container is started: it is scheduled and set
	// up. A new one after its function was killed takes it too.
	startDelay = 2 * time.Second
	mostPods   = 8
	// clientWaits is how long a client waits for its answer.
	clientWaits = 10 * time.Second
)

// A demand is the load of a profile, and the promise to its clients.
type demand struct {
	rate    float64       // requests a second, after the rise
	promise time.Duration // for 95 % of them
}

// demands are fixed: two to three times the capacity of one pod, and no more than eight pods at limit 10 can
// answer.
var demands = map[string]demand{
	"cpu": {140, 200 * time.Millisecond},
	"mem": {160, 600 * time.Millisecond},
	"io":  {300, time.Second},
}

// settling is the time at the beginning of a run that does not count.
const settling = 10 * time.Second

// arrivals draws the times of Poisson arrivals: half of the rate while all settles, then rising for a third of the rest.
func arrivals(seed uint64, rate, seconds float64) (list times) {
	rng := rand.New(rand.NewPCG(seed, 0x4a11))
	first := settling.Seconds()
	for at := rng.ExpFloat64() / rate; at < seconds; at += rng.ExpFloat64() / rate {
		if rng.Float64() < .5+.5*min(1, max(0, at-first)/((seconds-first)/3)) {
			list = append(list, time.Duration(at*float64(time.Second)))
		}
	}
	return list
}

// times is a [vegeta.Pacer] of given times.
type times []time.Duration

// Pace implements [vegeta.Pacer].
func (t times) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	if hits >= uint64(len(t)) {
		return 0, true
	}
	return max(0, t[hits]-elapsed), false
}

// Rate implements [vegeta.Pacer].
func (t times) Rate(time.Duration) float64 { return float64(len(t)) / t[len(t)-1].Seconds() }

// A fleet has the pods of a Revision.
type fleet struct {
	queue     string // the program queue-proxy
	profile   *profile
	limit     int
	activator *activator
	ended     sync.WaitGroup

	mu       sync.Mutex
	replicas []*replica // wanted, the oldest first
	past     []*replica
	kills    int
	failed   error
}

// A replica is a pod that is wanted from a time on, until another.
type replica struct {
	from, to time.Time
	cancel   context.CancelFunc
}

// scale sets the number of pods. The newest are removed first. Without a delay it returns when they are ready.
func (f *fleet) scale(ctx context.Context, n int, delay time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for len(f.replicas) < n {
		inner, cancel := context.WithCancel(ctx)
		f.replicas = append(f.replicas, &replica{from: now, cancel: cancel})
		if delay > 0 {
			f.ended.Go(func() { f.keep(inner, delay, nil) })
			continue
		}
		d, err := f.start(ctx)
		if err != nil {
			return err
		}
		f.ended.Go(func() { f.keep(inner, startDelay, d) })
	}
	for len(f.replicas) > n {
		last := f.replicas[len(f.replicas)-1]
		last.to = now
		last.cancel()
		f.replicas, f.past = f.replicas[:len(f.replicas)-1], append(f.past, last)
	}
	return f.failed
}

// start starts a pod behind queue-proxy.
func (f *fleet) start(ctx context.Context) (*pod, error) {
	d, err := newPod(ctx, f.profile, make(chan struct{}))
	if err != nil {
		return nil, err
	}
	if err := d.startQueue(ctx, f.queue, f.limit); err != nil {
		return nil, d.stop(err)
	}
	return d, nil
}

// keep keeps a pod running until it is not wanted: one that was killed is replaced.
func (f *fleet) keep(ctx context.Context, delay time.Duration, d *pod) {
	for {
		if d == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.NewTimer(delay).C:
			}
			var err error
			if d, err = f.start(ctx); err != nil {
				if ctx.Err() == nil {
					f.fail(err)
				}
				return
			}
		}
		b := f.activator.add(d)
		select {
		case <-d.dead:
			f.activator.remove(b)
			f.mu.Lock()
			f.kills++
			f.mu.Unlock()
		case <-ctx.Done():
			f.activator.remove(b)
			for end := time.Now().Add(clientWaits); b.inside.Load() > 0 && time.Now().Before(end); {
				<-time.NewTimer(20 * time.Millisecond).C
			}
		}
		if err := d.stop(nil); err != nil {
			f.fail(err)
		}
		if ctx.Err() != nil {
			return
		}
		d = nil
	}
}

func (f *fleet) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = errors.Join(f.failed, err)
}

// stop ends all pods. It returns how often a function was killed.
func (f *fleet) stop() (kills int, err error) {
	_ = f.scale(context.Background(), 0, 0)
	f.ended.Wait()
	return f.kills, f.failed
}

// podSeconds are those in which pods were wanted between two times.
func (f *fleet) podSeconds(from, to time.Time) (sum float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Concat(f.past, f.replicas) {
		begin, end := r.from, r.to
		if end.IsZero() || end.After(to) {
			end = to
		}
		if begin.Before(from) {
			begin = from
		}
		sum += max(0, end.Sub(begin).Seconds())
	}
	return sum
}

// A loopRun is the result of a setting in the loop.
type loopRun struct {
	Profile    string         `json:"profile"`
	Setting    setting        `json:"setting"`
	Repeat     int            `json:"repeat"`
	Seconds    float64        `json:"seconds"` // that count
	Requests   int            `json:"requests"`
	Answered   int            `json:"answered"`
	Codes      map[uint16]int `json:"codes"` // 0 = no answer
	P50        float64        `json:"p50"`   // seconds from when the request should have been sent; without an answer the longest
	P95        float64        `json:"p95"`
	PodSeconds float64        `json:"podSeconds"`
	Kills      int            `json:"kills"`
	Pods       []int          `json:"pods"` // wanted, by tick
	Load       string         `json:"load"` // of the machine before

	lost int // requests without an answer, those while all settles among them
}

// mean is the mean number of pods.
func (r *loopRun) mean() float64 { return r.PodSeconds / r.Seconds }

// runLoop lets clients send requests to a Service that begins with one pod, while Knative's autoscaler decides.
func runLoop(ctx context.Context, program string, p *profile, s setting, repeat int, seconds float64) (_ *loopRun, err error) {
	r := &loopRun{Profile: p.name, Setting: s, Repeat: repeat, Seconds: seconds - settling.Seconds(), Load: loadAverage(), Codes: map[uint16]int{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := newActivator(s.Limit)
	defer a.end()
	f := &fleet{queue: program, profile: p, limit: s.Limit, activator: a}
	defer func() {
		kills, failed := f.stop()
		r.Kills = kills
		err = errors.Join(err, failed)
	}()
	if err := f.scale(ctx, 1, 0); err != nil {
		return nil, err
	}
	for len(a.ready()) == 0 {
		<-time.NewTimer(time.Millisecond).C
	}
	k, err := newKPA(a, &s)
	if err != nil {
		return nil, err
	}
	defer k.close()
	plan := arrivals(uint64(repeat), demands[p.name].rate, seconds)
	client := &http.Client{Transport: a, Timeout: clientWaits}
	attacker := vegeta.NewAttacker(vegeta.Client(client), vegeta.Workers(64), vegeta.MaxWorkers(100_000))
	began := time.Now()
	results := attacker.Attack(vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: "http://web.default/"}), plan, 0, "")
	context.AfterFunc(ctx, func() {
		attacker.Stop()
		a.end()
	})
	scaled := make(chan error, 1)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	go func() { scaled <- f.follow(inner, k, r) }()
	latencies, sent := make([]float64, 0, len(plan)), 0
	for x := range results {
		sent++
		planned := plan[x.Seq]
		if x.Code != http.StatusOK {
			r.lost++
		}
		if planned < settling {
			continue
		}
		latency := clientWaits.Seconds()
		if x.Code == http.StatusOK {
			r.Answered++
			latency = x.Timestamp.Add(x.Latency).Sub(began.Add(planned)).Seconds()
		}
		r.Codes[x.Code]++
		latencies = append(latencies, latency)
	}
	r.PodSeconds = f.podSeconds(began.Add(settling), began.Add(time.Duration(seconds*float64(time.Second))))
	stop()
	if err := errors.Join(<-scaled, ctx.Err()); err != nil {
		return nil, err
	}
	if r.Requests = len(latencies); sent != len(plan) {
		return nil, fmt.Errorf("%s, %s: %d requests of %d were sent", p.name, s.Name, sent, len(plan))
	}
	slices.Sort(latencies)
	r.P50, r.P95 = quantile(latencies, .5), quantile(latencies, .95)
	return r, nil
}

// quantile of ascending values: the smallest that a share of them does not exceed.
func quantile(sorted []float64, share float64) float64 {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// follow carries out the autoscaler's decisions until the context ends.
func (f *fleet) follow(ctx context.Context, k *kpa, r *loopRun) error {
	report, tick := time.NewTicker(time.Second), time.NewTicker(kpaTick)
	defer report.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-report.C:
			k.report(now)
		case now := <-tick.C:
			n, ok := k.wants(now)
			if !ok {
				continue
			}
			n = min(mostPods, max(1, n))
			r.Pods = append(r.Pods, n)
			if err := f.scale(context.WithoutCancel(ctx), n, startDelay); err != nil {
				return err
			}
		}
	}
}

// A lesson is the result of Sigma's learner for a function before the loop.
type lesson struct {
	Profile string            `json:"profile"`
	Repeat  int               `json:"repeat"`
	Refused []string          `json:"refused,omitempty"` // why it was learned again: no rate kept the promise
	Setting setting           `json:"setting"`
	Windows []capacity.Window `json:"windows"`
	Reason  string            `json:"reason"`
}

const (
	agreed      = 4 // trials in a row at the learner's limit, as many as `sigma mpa concurrency learn` requires
	mostLessons = 30
)

// learnSetting lets the default learner find the limit of a function behind the gate, like `sigma mpa concurrency
// learn`, and returns the setting that `recommend --format knative` derives from it.
func learnSetting(ctx context.Context, gate string, p *profile, repeat int) (*lesson, error) {
	var refused []string
	for {
		x, err := learnOnce(ctx, gate, p, repeat)
		var no *noRate
		if !errors.As(err, &no) || len(refused) == mostRefused {
			if err == nil {
				x.Refused = refused
			}
			return x, err
		}
		refused = append(refused, err.Error())
	}
}

// mostRefused is how often a function is learned again, as a user would where no rate keeps the promise: on a busy
// machine a request that waits for the processor looks as if it waited for something else.
const mostRefused = 2

// noRate is why nothing is recommended.
type noRate struct{ error }

func learnOnce(ctx context.Context, gate string, p *profile, repeat int) (x *lesson, err error) {
	x = &lesson{Profile: p.name, Repeat: repeat}
	settings := capacity.DefaultSettings()
	settings.Initial = initial
	l, err := capacity.New(capacity.Default, settings)
	if err != nil {
		return nil, err
	}
	d, err := startPod(ctx, gate, p, settings.Initial)
	if err != nil {
		return nil, err
	}
	defer func() { err = d.stop(err) }()
	if err := d.warm(ctx, settings.Initial, settings.Initial); err != nil {
		return nil, err
	}
	for same := 0; same < agreed && len(x.Windows) < mostLessons; {
		n := l.Next()
		w, _, err := d.try(ctx, n)
		if err != nil {
			return nil, err
		}
		l.Tell(w)
		x.Windows = append(x.Windows, w)
		same++
		if c, ok := l.Estimate(); !ok || l.Next() != n || c.Limit != n {
			same = 0
		}
	}
	c, ok := l.Estimate()
	if !ok {
		return nil, fmt.Errorf("%s: the learner draws no limit", p.name)
	}
	slo := capacity.SLO{Percentile: 95, Latency: demands[p.name].promise.Seconds()}
	list, err := capacity.Best(&c, slo, []capacity.Size{{Cores: c.Cores, Memory: memoryBytes, Cost: c.Cores}})
	if err != nil {
		return nil, &noRate{fmt.Errorf("%s: %w of %v: %s", p.name, err, demands[p.name].promise, c.Reason)}
	}
	x.Reason = strings.TrimSpace(c.Reason)
	s := knative.SettingOf(list[0].Limit, list[0].Rate)
	x.Setting = setting{Name: "learned", Limit: list[0].Limit, Rate: s.Rate}
	return x, nil
}
