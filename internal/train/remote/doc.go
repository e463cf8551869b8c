// Package remote distributes the evaluations of a training run to other processes,
// over NATS JetStream. It transports tasks without interpreting them: a [Trainer]
// replaces [swarm.Parallel], a [Worker] calls the objective that a [train.Job]
// describes.
//
// Each run has a name, made of its settings and of the build, and on the server
// a stream and a bucket of that name, which end with it:
//
//	sigma.runs              the trainer announces four times a second that the run is on
//	sigma.run.<run>.task    tasks: a work queue that the workers pull from
//	sigma.run.<run>.result  their values, a queue that the trainer reads
//	bucket sigma-<run>      the job and its traces, by digest
//
// An evaluation is pure, so everything may happen twice. A worker acknowledges a task
// when its value is stored, and the trainer a value when it is in the checkpoint. A
// task whose worker falls silent is given to another. A task that was given out more
// than [Deliveries] times, or whose evaluation fails, ends the run with an error. The
// trainer sends lost messages again.
//
// Only equal programs give equal values: a worker takes part only if it runs the
// same file as the trainer (SHA-256).
package remote
