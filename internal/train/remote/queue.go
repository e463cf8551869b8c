package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sigma-scheduler/sigma/swarm"
)

// A queue is a worker's source of the tasks of a run.
type queue struct {
	conn      *Conn
	run       string
	worker    string // name, for messages
	tasks     jetstream.Consumer
	objective swarm.Objective
}

const (
	pollWait   = time.Second     // of a request for messages
	storeWait  = 5 * time.Second // of a request that the server answers at once
	storeAgain = time.Minute     // how long a value is offered to a server that does not answer
)

// next waits for a task, with a wait of 0 not at all; nil if none arrived.
func (q *queue) next(ctx context.Context, wait time.Duration) (jetstream.Msg, error) {
	var batch jetstream.MessageBatch
	var err error
	if wait == 0 {
		batch, err = q.tasks.FetchNoWait(1)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		batch, err = q.tasks.Fetch(1, jetstream.FetchContext(ctx))
	}
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return nil, nil
}

// serve evaluates one task, and hands it back when ctx ends meanwhile. It reports
// whether there is a value.
func (q *queue) serve(ctx context.Context, msg jetstream.Msg) bool {
	var m taskMessage
	if err := json.Unmarshal(msg.Data(), &m); err != nil {
		q.conn.say(fmt.Sprintf("run %s: a task that cannot be read: %v", q.run, err))
		_ = msg.Term() // it is of no trainer
		return false
	}
	r := resultMessage{Generation: m.Generation, Index: m.Index, Worker: q.worker}
	if times := deliveries(msg); times > Deliveries {
		r.Error = fmt.Sprintf("it was given out %d times and no worker answered: it ends the program, or takes more memory than there is", times-1)
	} else {
		quiet := q.hold(msg)
		value, objectives, err := q.evaluate(ctx, m.task())
		quiet()
		if ctx.Err() != nil {
			q.handBack(msg)
			return false
		}
		r.Value, r.Objectives = number(value), numbers(objectives)
		if err != nil {
			r.Error = err.Error()
		}
	}
	if !q.store(ctx, resultSubject(q.run), encode(r)) {
		return false // it is given out again
	}
	_ = msg.Ack() // when it is lost the task is evaluated twice
	return true
}

func deliveries(msg jetstream.Msg) uint64 {
	meta, err := msg.Metadata()
	if err != nil {
		return 0
	}
	return meta.NumDelivered
}

// evaluate turns a panic into an error, which is more informative than a lost worker.
func (q *queue) evaluate(ctx context.Context, t swarm.Task) (value float64, objectives []float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			q.conn.say(fmt.Sprintf("generation %d, index %d: panic: %v\n%s", t.Generation, t.Index, r, debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return q.objective(ctx, t)
}

// hold reports to the server that the task is in work, until the function that it
// returns is called.
func (q *queue) hold(msg jetstream.Msg) (release func()) {
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(q.tasks.CachedInfo().Config.AckWait / 4)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				_ = msg.InProgress() // a beat that is lost is followed by others
			}
		}
	}()
	return func() { close(stop) }
}

// handBack puts a task at the end of the queue, as a new one: a refusal would count as
// one more silent worker.
func (q *queue) handBack(msg jetstream.Msg) {
	if err := q.conn.publish(context.Background(), taskSubject(q.run), msg.Data()); err == nil {
		_ = msg.Ack() // when it is lost the task is evaluated twice
	}
}

// store publishes until the server has it, and reports whether it has.
func (q *queue) store(ctx context.Context, subject string, data []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, storeAgain)
	defer cancel()
	for {
		if err := q.conn.publish(ctx, subject, data); err == nil {
			return true
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return false
		}
	}
}

func (c *Conn) publish(ctx context.Context, subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	_, err := c.js.Publish(ctx, subject, data)
	return err
}

// gone reports whether a stream, a consumer or a bucket is missing.
func gone(err error) bool {
	for _, e := range []error{
		jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerDeleted,
		jetstream.ErrBucketNotFound, jetstream.ErrObjectNotFound, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
