package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
)

// Any client that may publish on the server determines the objects that a worker fetches, so
// they are bounded.
const (
	maxJob          = 16 << 20  // bytes of the job
	maxArchive      = 256 << 20 // bytes of the archives of a run
	unpackedTimes   = 200       // how many times its own size an archive may hold,
	unpackedAtLeast = 64 << 20  // or this many bytes

	joinWait    = 2 * time.Minute // of the first try; then twice as long each time
	joinTries   = 8
	joinsAtOnce = 4
	joinPause   = time.Second // after the first failure; then twice as long each time
	maxHeard    = 1024        // runs that a worker remembers without being in them
)

// A candidate is a run that a worker has heard of and takes no part in.
type candidate struct {
	trainer string
	heard   time.Time          // last
	cancel  context.CancelFunc // of the current try; nil = no try
	tries   int
	next    time.Time // no try before it
	said    string    // last
}

// due reports whether it is time for a try.
func (c *candidate) due(now time.Time) bool {
	return c.cancel == nil && c.tries < joinTries && !now.Before(c.next)
}

// patience is the timeout of the next try: a large run may need longer than the first,
// and a failed try loses its fetched data.
func (c *candidate) patience() time.Duration { return joinWait << c.tries }

// failed counts a try, and returns a description of the next step.
func (c *candidate) failed(now time.Time) string {
	pause := joinPause << c.tries
	c.tries++
	c.next = now.Add(pause)
	if c.tries == joinTries {
		return "given up until another trainer announces it"
	}
	return "trying again"
}

// An attempt is the outcome of a try to join a run.
type attempt struct {
	candidate *candidate
	run       string
	member    *membership
	job       *train.Job
	err       error
}

// consider begins to join a run that was announced, unless it is not for this worker or
// its time has not arrived.
func (w *Worker) consider(ctx context.Context, a announcement, now time.Time) {
	c := w.candidates[a.Run]
	if c == nil {
		if len(w.candidates) == maxHeard {
			return
		}
		c = &candidate{}
		w.candidates[a.Run] = c
	}
	c.heard = now
	if c.trainer != a.Trainer { // the cause of its failures may be mended
		c.trainer, c.tries = a.Trainer, 0
	}
	if a.Protocol != protocol || a.Build.Digest != w.build.Digest {
		w.once(c, fmt.Sprintf("run %s is left to others: the trainer is another build, so its values would not be equal: it is %v, this worker %v; use the same file for both",
			a.Run, a.Build, w.build))
		return
	}
	if !c.due(now) || w.joining == joinsAtOnce {
		return
	}
	have := maps.Clone(w.traces)
	var try context.Context
	try, c.cancel = context.WithTimeout(ctx, c.patience())
	w.joining++
	w.working.Go(func() {
		end := attempt{candidate: c, run: a.Run}
		end.member, end.job, end.err = w.join(try, a.Run, have)
		select {
		case w.attempts <- end:
		case <-ctx.Done():
		}
	})
}

// joined takes a run among those that the worker evaluates for, unless it ended meanwhile.
func (w *Worker) joined(ctx context.Context, end attempt, now time.Time) {
	c := end.candidate
	w.joining--
	c.cancel()
	c.cancel = nil
	if w.candidates[end.run] != c || ctx.Err() != nil {
		return
	}
	if end.err != nil {
		w.once(c, fmt.Sprintf("joining run %s: %v; %s", end.run, end.err, c.failed(now)))
		return
	}
	delete(w.candidates, end.run)
	m := end.member
	m.ctx, m.leave = context.WithCancel(ctx)
	m.announced = c.heard
	for i, digest := range end.job.Digests {
		w.traces[digest] = end.job.Traces[i]
	}
	w.mu.Lock()
	w.runs = append(slices.Clip(w.runs), m)
	w.mu.Unlock()
	w.conn.say(fmt.Sprintf("run %s: joined, %d traces", end.run, len(end.job.Traces)))
}

// pass forgets a run that the worker is not in.
func (w *Worker) pass(run string) {
	if c := w.candidates[run]; c != nil && c.cancel != nil {
		c.cancel()
	}
	delete(w.candidates, run)
}

// once reports a line unless it was the last about this run.
func (w *Worker) once(c *candidate, line string) {
	if c.said != line {
		c.said = line
		w.conn.say(line)
	}
}

// join gets all that the tasks of a run need. It changes nothing of the worker.
func (w *Worker) join(ctx context.Context, run string, have map[string]*trace.Trace) (m *membership, job *train.Job, err error) {
	defer func() {
		if r := recover(); r != nil { // a job that no trainer of this build sent
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if job, err = w.download(ctx, run, have); err != nil {
		return nil, nil, err
	}
	objective, err := w.Objective(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := w.conn.js.Consumer(ctx, streamName(run), tasksConsumer)
	if err != nil {
		return nil, nil, err
	}
	return &membership{
		queue:   queue{conn: w.conn, run: run, worker: w.Name, tasks: tasks, objective: objective},
		digests: job.Digests,
	}, job, nil
}

// download fetches a job and those of its traces that are not here.
func (w *Worker) download(ctx context.Context, run string, have map[string]*trace.Trace) (*train.Job, error) {
	bucket, err := w.conn.js.ObjectStore(ctx, streamName(run))
	if err != nil {
		return nil, err
	}
	data, err := fetch(ctx, bucket, jobObject, maxJob)
	if err != nil {
		return nil, err
	}
	m, err := parseJob(data)
	if err != nil {
		return nil, fmt.Errorf("reading the job: %w", err)
	}
	if name := runName(m.ID, w.build); name != run {
		return nil, fmt.Errorf("the job is that of run %s", name)
	}
	job := &train.Job{ID: m.ID, Config: m.Config, Digests: m.Digests}
	left := uint64(maxArchive)
	for _, digest := range m.Digests {
		if have[digest] == nil {
			data, err := fetch(ctx, bucket, digest, left)
			if err == nil {
				left -= uint64(len(data))
				have[digest], err = parseTrace(data, digest)
			}
			if err != nil {
				return nil, fmt.Errorf("trace %s: %w", digest, err)
			}
		}
		job.Traces = append(job.Traces, have[digest])
	}
	return job, nil
}

// fetch returns an object of at most limit bytes. It checks the size before it fetches the object.
func fetch(ctx context.Context, bucket jetstream.ObjectStore, name string, limit uint64) ([]byte, error) {
	info, err := bucket.GetInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, fmt.Errorf("object %s has %d bytes: want at most %d", name, info.Size, limit)
	}
	object, err := bucket.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = object.Close() }() // only read
	// Of the size that was announced, since more may follow.
	data := make([]byte, info.Size)
	if _, err := io.ReadFull(object, data); err != nil {
		return nil, fmt.Errorf("object %s: %w", name, err)
	}
	if n, err := object.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("object %s is not of the %d bytes that it says: %w", name, info.Size, errors.Join(err, object.Error()))
	}
	return data, nil
}

func parseJob(data []byte) (m jobMessage, err error) {
	err = json.Unmarshal(data, &m)
	return m, err
}

// maxUnpacked is the most bytes that an archive may hold.
func maxUnpacked(archive []byte) int64 {
	return max(unpackedAtLeast, unpackedTimes*int64(len(archive)))
}

// acceptable reports why no worker would take an archive, where left bytes of archives
// are left to the run.
func acceptable(archive []byte, left uint64) error {
	if uint64(len(archive)) > left {
		return fmt.Errorf("the archives of a run may have %d bytes", maxArchive)
	}
	r, err := trace.Unpack(bytes.NewReader(archive), maxUnpacked(archive))
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

// parseTrace unpacks a stored trace.
func parseTrace(data []byte, digest string) (*trace.Trace, error) {
	t, err := trace.ParseArchive(data, maxUnpacked(data))
	if err != nil {
		return nil, err
	}
	_, got, err := t.Digests()
	if err == nil && got != digest {
		err = fmt.Errorf("what was stored is %s", got)
	}
	return t, err
}
