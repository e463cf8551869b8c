package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// jobMessage is a [train.Job] without its traces.
type jobMessage struct {
	ID      string
	Config  []byte
	Digests []string
}

// A Worker evaluates the tasks of all runs on a server that are of its build.
type Worker struct {
	Name    string
	Threads int
	// Done is called after each task, from any goroutine; may be nil.
	Done func()
	// Objective returns the function that evaluates a job; nil = [train.Job.Objective].
	Objective func(context.Context, *train.Job) (swarm.Objective, error)

	conn       *Conn
	build      Build
	traces     map[string]*trace.Trace // by digest, those of the runs that are on
	candidates map[string]*candidate   // by run
	joining    int                     // tries that are under way
	attempts   chan attempt            // those that ended
	working    sync.WaitGroup

	mu   sync.Mutex
	runs []*membership // changed by Run alone, to a new slice
}

// A membership is a worker's part in a run.
type membership struct {
	queue
	ctx       context.Context // of the run
	leave     context.CancelFunc
	announced time.Time // last
	digests   []string
	served    int
}

// Run works until ctx ends, or until the server has another certificate or refuses this side;
// tasks in work return to the queue then. It joins runs concurrently with its work, so that
// one that cannot be joined delays no other. Runs of another build are left alone: one of its
// own may follow.
func (w *Worker) Run(ctx context.Context, conn *Conn) error {
	build, err := ThisBuild()
	if err != nil {
		return err
	}
	if w.Objective == nil {
		w.Objective = func(ctx context.Context, job *train.Job) (swarm.Objective, error) { return job.Objective(ctx) }
	}
	w.conn, w.build = conn, build
	w.traces, w.candidates, w.attempts = map[string]*trace.Trace{}, map[string]*candidate{}, make(chan attempt)
	announcements := make(chan *nats.Msg, 1024)
	subscription, err := conn.nats.ChanSubscribe(runsSubject, announcements)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }() // the connection is about to end
	ctx, stop := context.WithCancel(ctx)
	defer w.working.Wait()
	defer stop()
	for range w.Threads {
		w.working.Go(func() { w.work(ctx) })
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-announcements:
			var a announcement
			if err := json.Unmarshal(m.Data, &a); err != nil {
				continue // not of a trainer
			}
			w.follow(ctx, a)
		case end := <-w.attempts:
			w.joined(ctx, end, time.Now())
		case <-ticker.C:
			if err := conn.hopeless(); err != nil {
				return err
			}
			w.forget()
		}
	}
}

// follow stays in a run, leaves it, or begins to join it.
func (w *Worker) follow(ctx context.Context, a announcement) {
	i := slices.IndexFunc(w.runs, func(r *membership) bool { return r.run == a.Run })
	switch {
	case i >= 0 && a.Over:
		w.drop(i, "is over")
	case i >= 0:
		w.runs[i].announced = time.Now()
	case a.Over:
		w.pass(a.Run)
	default:
		w.consider(ctx, a, time.Now())
	}
}

// forget leaves runs whose trainers are silent, but not while the server is away: no
// announcement arrives then.
func (w *Worker) forget() {
	now, connected := time.Now(), w.conn.nats.IsConnected()
	for i, r := range slices.Backward(w.runs) {
		switch {
		case !connected:
			r.announced = now
		case now.Sub(r.announced) > silentAfter:
			w.drop(i, "has no trainer any more")
		}
	}
	for run, c := range w.candidates {
		if now.Sub(c.heard) > silentAfter {
			w.pass(run)
		}
	}
}

func (w *Worker) drop(i int, why string) {
	w.mu.Lock()
	r := w.runs[i]
	w.runs = slices.Concat(w.runs[:i], w.runs[i+1:])
	served := r.served
	w.mu.Unlock()
	r.leave()
	kept := map[string]bool{}
	for _, other := range w.runs {
		for _, digest := range other.digests {
			kept[digest] = true
		}
	}
	for digest := range w.traces {
		if !kept[digest] {
			delete(w.traces, digest)
		}
	}
	w.conn.say(fmt.Sprintf("run %s %s: %d tasks done", r.run, why, served))
}

// work takes tasks of the runs in turn.
func (w *Worker) work(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		w.mu.Lock()
		runs := w.runs
		w.mu.Unlock()
		if len(runs) == 0 {
			sleep(ctx, 50*time.Millisecond)
			continue
		}
		wait := pollWait
		if len(runs) > 1 {
			wait = 0
		}
		pause := 20 * time.Millisecond // between looks at several queues
		if len(runs) == 1 {
			pause = 0
		}
		for i := range runs {
			r := runs[(i+turn)%len(runs)]
			msg, err := r.next(r.ctx, wait)
			if err != nil {
				pause = pollWait / 5 // no server, or the run is ending
			}
			if msg == nil {
				continue
			}
			if r.serve(r.ctx, msg) {
				w.count(r)
			}
			pause = 0
			break
		}
		sleep(ctx, pause)
	}
}

func (w *Worker) count(r *membership) {
	w.mu.Lock()
	r.served++
	w.mu.Unlock()
	if w.Done != nil {
		w.Done()
	}
}
