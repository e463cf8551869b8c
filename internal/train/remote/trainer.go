package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// TrainerOptions configure a [Trainer]; no field changes a value.
type TrainerOptions struct {
	Threads  int           // tasks that the trainer evaluates itself at the same time
	InFlight int           // tasks given to the server and not answered, at most; 0 = 256
	AckWait  time.Duration // after which a silent worker's task is given to another; 0 = 5 s
}

// A Trainer gives the evaluations of one run to workers. It is a
// [train.Distributor].
type Trainer struct {
	conn      *Conn
	job       *train.Job
	options   TrainerOptions
	run       string
	id        string
	build     Build
	answers   chan answer
	failed    chan error // at most one
	stop      context.CancelFunc
	working   sync.WaitGroup
	announced *nats.Subscription

	mu       sync.Mutex
	lastSaid string
}

type answer struct {
	resultMessage
	msg jetstream.Msg
}

// NewTrainer announces a run. A run has one trainer at a time.
func NewTrainer(ctx context.Context, conn *Conn, job *train.Job, o TrainerOptions) (*Trainer, error) {
	build, err := ThisBuild()
	if err != nil {
		return nil, err
	}
	o.InFlight = cmp.Or(o.InFlight, 256)
	o.AckWait = cmp.Or(o.AckWait, 5*time.Second)
	t := &Trainer{
		conn: conn, job: job, options: o, build: build, run: runName(job.ID, build), id: rand.Text(),
		answers: make(chan answer), failed: make(chan error, 1),
	}
	if t.announced, err = conn.nats.Subscribe(runsSubject, t.twin); err != nil {
		return nil, err
	}
	if err := t.alone(ctx); err != nil {
		return nil, errors.Join(err, t.announced.Unsubscribe())
	}
	results, tasks, err := t.ensure(ctx, true)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the run on the server: %w", err), t.announced.Unsubscribe())
	}
	own, err := job.Objective(ctx)
	if err != nil {
		return nil, errors.Join(err, t.announced.Unsubscribe())
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.working.Go(func() { t.announce(background) })
	t.working.Go(func() { t.receive(background, results) })
	q := &queue{conn: conn, run: t.run, worker: "the trainer", tasks: tasks, objective: own}
	for range o.Threads {
		t.working.Go(func() { q.work(background) })
	}
	return t, nil
}

// alone listens for another trainer of this run, long enough to receive its
// announcement. A server of our own has just begun, so no other trainer exists.
func (t *Trainer) alone(ctx context.Context) error {
	if t.conn.own {
		return nil
	}
	select {
	case err := <-t.failed:
		return err
	case <-time.After(3 * announceEvery):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// twin handles announcements of another trainer of this run.
func (t *Trainer) twin(m *nats.Msg) {
	var a announcement
	if json.Unmarshal(m.Data, &a) != nil || a.Run != t.run || a.Trainer == t.id || a.Over {
		return
	}
	select {
	case t.failed <- fmt.Errorf("another trainer is at this very run (%s) on this server", t.run):
	default:
	}
}

// ensure makes the stream, the queues and the bucket of the run if they are missing
// on the server; clean also removes those left by an earlier trainer of the run.
func (t *Trainer) ensure(ctx context.Context, clean bool) (results, tasks jetstream.Consumer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*storeWait)
	defer cancel()
	js := t.conn.js
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName(t.run), Description: "Sigma: tasks and values of a training run",
		Subjects:  []string{taskSubject(t.run), resultSubject(t.run)},
		Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return nil, nil, err
	}
	if clean {
		if err := stream.Purge(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := t.upload(ctx); err != nil {
		return nil, nil, err
	}
	results, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: resultsConsumer, FilterSubject: resultSubject(t.run), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
	})
	if err != nil {
		return nil, nil, err
	}
	tasks, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: tasksConsumer, FilterSubject: taskSubject(t.run), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: t.options.AckWait, MaxAckPending: -1, MaxDeliver: -1,
	})
	return results, tasks, err
}

// upload stores the job and the traces that the server lacks.
func (t *Trainer) upload(ctx context.Context) error {
	bucket, err := t.conn.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: streamName(t.run), Description: "Sigma: what a training run is about",
	})
	if err != nil {
		return err
	}
	left := uint64(maxArchive)
	for i, digest := range t.job.Digests {
		if info, err := bucket.GetInfo(ctx, digest); err == nil {
			left -= min(left, info.Size)
			continue
		} else if !errors.Is(err, jetstream.ErrObjectNotFound) {
			return err
		}
		data, err := t.job.Traces[i].Archive()
		if err != nil {
			return err
		}
		if err := acceptable(data, left); err != nil {
			return fmt.Errorf("trace %q: no worker takes it: %w", t.job.Traces[i].Name, err)
		}
		left -= uint64(len(data))
		if _, err := bucket.PutBytes(ctx, digest, data); err != nil {
			return err
		}
	}
	_, err = bucket.PutBytes(ctx, jobObject, encode(jobMessage{t.job.ID, t.job.Config, t.job.Digests}))
	return err
}

// announce publishes that the run is on, and at the end that it is over.
func (t *Trainer) announce(ctx context.Context) {
	a := announcement{Protocol: protocol, Run: t.run, Trainer: t.id, Build: t.build}
	for {
		_ = t.conn.nats.Publish(runsSubject, encode(a)) // the next one follows
		if !sleep(ctx, announceEvery) {
			a.Over = true
			_ = t.conn.nats.Publish(runsSubject, encode(a)) // without it workers notice the silence
			_ = t.conn.nats.FlushTimeout(time.Second)
			return
		}
	}
}

// receive reads values as they arrive.
func (t *Trainer) receive(ctx context.Context, results jetstream.Consumer) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 2*pollWait)
		batch, err := results.Fetch(64, jetstream.FetchContext(wait))
		if err == nil {
			for m := range batch.Messages() {
				a := answer{msg: m}
				if err := json.Unmarshal(m.Data(), &a.resultMessage); err != nil {
					t.say("a value that cannot be read: " + err.Error())
					_ = m.Term() // the task is missed and sent again
					continue
				}
				select {
				case t.answers <- a:
				case <-ctx.Done(): // the batch ends with it
				}
			}
			err = batch.Error()
		}
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			sleep(ctx, pollWait/5)
		}
	}
}

// Evaluate implements [swarm.Evaluate]: it keeps up to InFlight tasks on the
// server until all have a value.
func (t *Trainer) Evaluate(ctx context.Context, tasks []swarm.Task, done swarm.Done) error {
	open := map[[2]int]swarm.Task{} // sent and not answered
	quiet := 0                      // seconds since the last answer
	const quietAfter = 60
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for sent := 0; sent < len(tasks) || len(open) > 0; {
		for sent < len(tasks) && len(open) < t.options.InFlight && t.send(ctx, tasks[sent]) {
			open[place(tasks[sent])] = tasks[sent]
			sent++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-t.failed:
			return err
		case a := <-t.answers:
			task, asked := open[[2]int{a.Generation, a.Index}]
			if asked {
				if err := a.take(task, done); err != nil {
					return err
				}
				delete(open, place(task))
			}
			_ = a.msg.Ack() // if it is lost the value arrives again, and is ignored
			quiet = 0
		case <-ticker.C:
			if quiet++; quiet == quietAfter && t.options.Threads == 0 {
				t.say("no value has come for a minute; are there workers?")
			}
			if len(open) > 0 && t.lost(ctx) {
				for _, task := range tasks[:sent] {
					if _, missing := open[place(task)]; missing && !t.send(ctx, task) {
						break
					}
				}
			}
		}
	}
	return nil
}

func place(t swarm.Task) [2]int { return [2]int{t.Generation, t.Index} }

func (a answer) take(task swarm.Task, done swarm.Done) error {
	if a.Error != "" {
		return fmt.Errorf("generation %d, index %d, on %s: %s", a.Generation, a.Index, a.Worker, a.Error)
	}
	return done(task, float64(a.Value), floats(a.Objectives)...)
}

// send reports whether the server has the task.
func (t *Trainer) send(ctx context.Context, task swarm.Task) bool {
	err := t.conn.publish(ctx, taskSubject(t.run), encode(taskMessage{task.Generation, task.Index, numbers(task.X)}))
	if err != nil && ctx.Err() == nil {
		t.say("sending a task: " + err.Error() + "; trying again")
	}
	return err == nil
}

// lost reports whether the server holds neither a task nor a value of the run, and
// restores the run's stream, queues and bucket.
func (t *Trainer) lost(ctx context.Context) bool {
	ask, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	stream, err := t.conn.js.Stream(ask, streamName(t.run))
	if err == nil && stream.CachedInfo().State.Msgs > 0 {
		return false
	}
	if err != nil && !gone(err) {
		return false // no answer; later
	}
	if _, _, err := t.ensure(ctx, false); err != nil {
		t.say("the server lost the run: " + err.Error() + "; trying again")
		return false
	}
	return true
}

// say reports a line unless it is the same as the last.
func (t *Trainer) say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line != t.lastSaid {
		t.lastSaid = line
		t.conn.say(line)
	}
}

// Close ends the run for the workers, and removes its stream and its bucket.
func (t *Trainer) Close() error {
	t.stop()
	t.working.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	err := errors.Join(t.announced.Unsubscribe(), t.conn.js.DeleteStream(ctx, streamName(t.run)),
		t.conn.js.DeleteObjectStore(ctx, streamName(t.run)))
	if err != nil && !gone(err) {
		t.say("what the run left on the server was not removed: " + err.Error())
	}
	return nil // the result does not depend on it
}

// work serves until ctx ends.
func (q *queue) work(ctx context.Context) {
	for ctx.Err() == nil {
		switch msg, err := q.next(ctx, pollWait); {
		case err != nil:
			sleep(ctx, pollWait/5)
		case msg != nil:
			q.serve(ctx, msg)
		}
	}
}
