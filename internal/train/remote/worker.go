package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// ErrOtherBuild is wrapped when a worker meets a trainer of another build.
var ErrOtherBuild = errors.New("the trainer is another build")

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
	Objective func(*train.Job) (swarm.Objective, error)

	conn     *Conn
	build    Build
	traces   map[string]*trace.Trace // by digest, those of the runs that are on
	joined   bool                    // some run, at some time
	reported map[string]bool         // lines that were reported, once each

	mu   sync.Mutex
	runs []*membership
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

// Run works until ctx ends; tasks in work go back into the queue then. The error
// wraps [ErrOtherBuild] when the first run that it meets is not of its build; it
// ignores later such runs.
func (w *Worker) Run(ctx context.Context, conn *Conn) error {
	build, err := ThisBuild()
	if err != nil {
		return err
	}
	if w.Objective == nil {
		w.Objective = (*train.Job).Objective
	}
	w.conn, w.build = conn, build
	w.traces, w.reported = map[string]*trace.Trace{}, map[string]bool{}
	announcements := make(chan *nats.Msg, 1024)
	subscription, err := conn.nats.ChanSubscribe(runsSubject, announcements)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }() // the connection is about to end
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	for range w.Threads {
		working.Go(func() { w.work(ctx) })
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
			if err := w.follow(ctx, a); err != nil {
				return err
			}
		case <-ticker.C:
			w.forget()
		}
	}
}

// follow joins a run, stays in it or leaves it.
func (w *Worker) follow(ctx context.Context, a announcement) error {
	w.mu.Lock()
	i := slices.IndexFunc(w.runs, func(r *membership) bool { return r.run == a.Run })
	if i >= 0 {
		w.runs[i].announced = time.Now()
	}
	w.mu.Unlock()
	switch {
	case a.Over && i >= 0:
		w.drop(i, "is over")
	case a.Over || i >= 0:
	case a.Protocol != protocol || a.Build.Digest != w.build.Digest:
		err := fmt.Errorf("%w, so its values would not be equal: it is %v, this worker %v; use the same file for both",
			ErrOtherBuild, a.Build, w.build)
		if !w.joined {
			return err
		}
		w.once(a.Run, fmt.Sprintf("run %s is left to others: %v", a.Run, err))
	default:
		if err := w.join(ctx, a); err != nil && ctx.Err() == nil { // the next announcement is the next try
			w.once(a.Run+err.Error(), fmt.Sprintf("joining run %s: %v; trying again", a.Run, err))
		}
	}
	return nil
}

func (w *Worker) once(key, line string) {
	if !w.reported[key] {
		w.reported[key] = true
		w.conn.say(line)
	}
}

func (w *Worker) join(ctx context.Context, a announcement) error {
	job, err := w.download(ctx, a.Run)
	if err != nil {
		return err
	}
	objective, err := w.Objective(job)
	if err != nil {
		return err
	}
	tasks, err := w.conn.js.Consumer(ctx, streamName(a.Run), tasksConsumer)
	if err != nil {
		return err
	}
	m := &membership{
		queue:     queue{conn: w.conn, run: a.Run, worker: w.Name, tasks: tasks, objective: objective},
		announced: time.Now(), digests: job.Digests,
	}
	m.ctx, m.leave = context.WithCancel(ctx)
	w.mu.Lock()
	w.runs = append(w.runs, m)
	w.mu.Unlock()
	w.joined = true
	w.conn.say(fmt.Sprintf("run %s: joined, %d traces", a.Run, len(job.Traces)))
	return nil
}

// download fetches a job and those of its traces that are missing here.
func (w *Worker) download(ctx context.Context, run string) (*train.Job, error) {
	bucket, err := w.conn.js.ObjectStore(ctx, streamName(run))
	if err != nil {
		return nil, err
	}
	data, err := bucket.GetBytes(ctx, jobObject)
	if err != nil {
		return nil, err
	}
	var m jobMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("reading the job: %w", err)
	}
	if name := runName(m.ID, w.build); name != run {
		return nil, fmt.Errorf("the job is that of run %s", name)
	}
	job := &train.Job{ID: m.ID, Config: m.Config, Digests: m.Digests}
	for _, digest := range m.Digests {
		if w.traces[digest] == nil {
			if w.traces[digest], err = fetchTrace(ctx, bucket, digest); err != nil {
				return nil, err
			}
		}
		job.Traces = append(job.Traces, w.traces[digest])
	}
	return job, nil
}

func fetchTrace(ctx context.Context, bucket jetstream.ObjectStore, digest string) (*trace.Trace, error) {
	data, err := bucket.GetBytes(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", digest, err)
	}
	t, err := trace.ParseArchive(data)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", digest, err)
	}
	_, got, err := t.Digests()
	if err == nil && got != digest {
		err = fmt.Errorf("what was stored as trace %s is %s", digest, got)
	}
	return t, err
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
