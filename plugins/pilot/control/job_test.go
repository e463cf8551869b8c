package control

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// ordersJobs is a bench with the template of the manifests, whose pilot orders Jobs.
func ordersJobs(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	text, err := os.ReadFile("../../../manifests/components/pilot/training.yaml")
	require.NoError(t, err)
	template := &batchv1.CronJob{}
	require.NoError(t, yaml.UnmarshalStrict(text, template))
	require.Equal(t, v1alpha1.PilotTrainingTemplate, template.Name)
	require.NoError(t, b.c.Create(t.Context(), template))
	o := b.pilot()
	o.Spec.Train.Job = &v1alpha1.PilotJob{Cores: 3, Memory: new(resource.MustParse("1Gi"))}
	require.NoError(t, b.c.Update(t.Context(), o))
	b.record()
	return b
}

func (b *bench) jobs() []batchv1.Job {
	var list batchv1.JobList
	require.NoError(b.t, b.c.List(b.t.Context(), &list))
	return list.Items
}

// training goes on to the next training at once.
func (b *bench) training() {
	b.t.Helper()
	require.NoError(b.t, b.step())
	b.idle()
	b.now = b.now.Add(time.Minute)
	b.until(pilot.Training)
}

// job is the only Job, once it was made.
func (b *bench) job() *batchv1.Job {
	b.t.Helper()
	b.training()
	require.NoError(b.t, b.step())
	list := b.jobs()
	require.Len(b.t, list, 1, b.pilot().Status.Reasons)
	return &list[0]
}

// end is the Job controller that says how a Job ended.
func (b *bench) end(job *batchv1.Job, as batchv1.JobConditionType, reason, message string) {
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
		Type: as, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(b.now),
	})
	require.NoError(b.t, b.c.Status().Update(b.t.Context(), job))
}

// container is what the pod of a Job runs.
func (b *bench) container(ctx context.Context, job *batchv1.Job) error {
	return Learn(ctx, b.dir, job.Spec.Template.Annotations[v1alpha1.PilotTrainingAnnotation])
}

// TestJob: a Job trains what the process of the pilot would have, to the byte, with any number of cores. The pilot is
// killed on the way and its spec changes: the Job that it has goes on, and is gone when the training is over.
func TestJob(t *testing.T) {
	here := newBench(t)
	here.record()
	want := here.until(pilot.Judging).Status.Candidate
	require.NotEmpty(t, want)
	// What is chosen here is a rule: whether the searches were the same, their checkpoints say. They stay where the
	// outcome cannot be kept.
	searched := newBench(t)
	searched.record()
	searched.training()
	s := searched.r.loops["general"].worker.shelf
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, trainedFile, "x"), 0o755))
	searched.idle()
	checkpoints := files(t, s.checkpoints(searched.memory().Job))
	require.NotEmpty(t, checkpoints)

	b := ordersJobs(t)
	job := b.job()
	require.Regexp(t, `^sigma-pilot-train-20261106-03\d{4}-[0-9a-f]{10}$`, job.Name)
	require.Equal(t, "sigma-system", job.Namespace)
	require.Equal(t, "general", job.OwnerReferences[0].Name)
	require.Equal(t, int64(12*3600), *job.Spec.ActiveDeadlineSeconds)
	resources := job.Spec.Template.Spec.Containers[0].Resources
	require.Equal(t, "3 1Gi 1Gi", resources.Requests.Cpu().String()+" "+resources.Requests.Memory().String()+" "+resources.Limits.Memory().String())

	// The kill comes after the Job was made, and before that was noted.
	name := b.r.loops["general"].worker.shelf.jobDir(b.memory().Job)
	require.NoError(t, os.Remove(filepath.Join(name, madeFile)))
	b.restart()
	o := b.pilot()
	o.Spec.Train.Job, o.Spec.Train.Evaluations = nil, 300
	require.NoError(t, b.c.Update(t.Context(), o))
	for range 5 {
		b.now = b.now.Add(time.Minute)
		require.NoError(t, b.step())
	}
	require.Contains(t, strings.Join(b.pilot().Status.Reasons, "; "), "the Job sigma-system/"+job.Name+" trains")
	require.FileExists(t, filepath.Join(name, madeFile))
	require.Len(t, b.jobs(), 1)

	// The first pod is evicted, the next one ends.
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.container(stopped, job), context.Canceled)
	require.NoFileExists(t, filepath.Join(name, resultFile))
	require.NoError(t, b.container(t.Context(), job))
	require.Equal(t, checkpoints, files(t, b.r.loops["general"].worker.shelf.checkpoints(b.memory().Job)))
	before, err := os.ReadFile(filepath.Join(name, resultFile))
	require.NoError(t, err)
	o = b.until(pilot.Judging)
	require.Equal(t, want, o.Status.Candidate)
	require.Empty(t, b.jobs())
	require.NoDirExists(t, name)
	text := func(b *bench) string {
		text, err := os.ReadFile(b.r.loops["general"].worker.shelf.file(want))
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, text(here), text(b))
	var r result
	require.NoError(t, json.Unmarshal(before, &r))
	require.Equal(t, *here.r.loops["general"].worker.trained, in(r.Trained, here.r.loops["general"].worker.trained.Job))
}

// files are the lines of those of a folder: evaluations come in any order.
func files(t *testing.T, dir string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = slices.Sorted(strings.Lines(string(text)))
	}
	return all
}

// in is an outcome under the name of another training.
func in(t pilot.Trained, job string) pilot.Trained {
	t.Job = job
	return t
}

// memory is what the loop remembers.
func (b *bench) memory() (s pilot.State) {
	require.NoError(b.t, json.Unmarshal(b.pilot().Status.Memory.Raw, &s))
	return s
}

// told are the events so far.
func (b *bench) told() string {
	var all []string
	for events := b.r.events.(*record.FakeRecorder).Events; len(events) > 0; {
		all = append(all, <-events)
	}
	return strings.Join(all, "\n")
}

// TestJobsThatFail: however a Job ends without a result, the training ends with the reason, the loop rests until the
// schedule, and no Job stays.
func TestJobsThatFail(t *testing.T) {
	if testing.Short() {
		t.Skip("a step on one goroutine: the race detector has nothing to find")
	}
	for want, fault := range map[string]func(*bench, *batchv1.Job){
		"failed: BackoffLimitExceeded: it has failed": func(b *bench, job *batchv1.Job) {
			b.end(job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "it has failed")
		},
		"failed: DeadlineExceeded: too long": func(b *bench, job *batchv1.Job) {
			b.end(job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, "too long")
		},
		"succeeded, and left no result": func(b *bench, job *batchv1.Job) {
			b.end(job, batchv1.JobComplete, "", "")
			require.NoError(b.t, b.step())
			require.Equal(b.t, "Training", b.pilot().Status.Phase, "the volume may show it later")
		},
		"is gone, and left no result": func(b *bench, job *batchv1.Job) { require.NoError(b.t, b.c.Delete(b.t.Context(), job)) },
		"was deleted, and another one has its name": func(b *bench, job *batchv1.Job) {
			job.UID = "another"
			require.NoError(b.t, b.c.Update(b.t.Context(), job))
		},
		"is being deleted": func(b *bench, job *batchv1.Job) {
			job.Finalizers = []string{metav1.FinalizerDeleteDependents}
			require.NoError(b.t, b.c.Update(b.t.Context(), job))
			require.NoError(b.t, b.c.Delete(b.t.Context(), job))
		},
		"the result is of another order": func(b *bench, _ *batchv1.Job) {
			b.leave(result{"0", pilot.Trained{Job: b.memory().Job}})
		},
		"unexpected end of JSON": func(b *bench, _ *batchv1.Job) {
			dir := b.r.loops["general"].worker.shelf.jobDir(b.memory().Job)
			require.NoError(b.t, os.WriteFile(filepath.Join(dir, resultFile), []byte(`{"order`), 0o600))
		},
		"no such file or directory": func(b *bench, _ *batchv1.Job) { // of the policy that the result names
			d, err := b.r.loops["general"].worker.shelf.order(b.memory().Job)
			require.NoError(b.t, err)
			b.leave(result{d.digest, pilot.Trained{Job: d.Lesson.Job, Candidate: "sha256:none"}})
		},
		"unexpected EOF": func(b *bench, job *batchv1.Job) { // of a day that was cut off
			files, err := filepath.Glob(filepath.Join(b.r.folder(b.pilot()), segmentsDir, "events", "*.gz"))
			require.NoError(b.t, err)
			for _, name := range files {
				require.NoError(b.t, os.Truncate(name, 100))
			}
			require.NoError(b.t, b.container(b.t.Context(), job))
		},
		"is the order for another training": func(b *bench, _ *batchv1.Job) {
			s := b.r.loops["general"].worker.shelf
			require.NoError(b.t, s.save(filepath.Join(jobsDir, b.memory().Job, orderFile), &order{}))
		},
		"did not end within": func(b *bench, _ *batchv1.Job) { b.now = b.now.Add(12*time.Hour + time.Minute) },
	} {
		t.Run(want, func(t *testing.T) {
			b := ordersJobs(t)
			job := b.job()
			fault(b, job)
			b.now = b.now.Add(2 * time.Minute)
			for range 3 {
				require.NoError(t, b.step())
			}
			o := b.pilot()
			require.Equal(t, "Recording", o.Status.Phase, o.Status.Reasons)
			require.Contains(t, b.told(), want)
			require.Empty(t, o.Status.Candidate)
			entries, err := os.ReadDir(filepath.Join(b.r.folder(o), jobsDir))
			require.NoError(t, err)
			require.Equal(t, want == "is being deleted", len(entries) == 1, "it stays until the Job is gone")
			if want == "is the order for another training" { // its name is lost: it ends by itself
				return
			}
			for _, j := range b.jobs() {
				require.NotNil(t, j.DeletionTimestamp)
			}
			for range 5 {
				b.now = b.now.Add(time.Hour)
				require.NoError(t, b.step())
			}
			require.Equal(t, "Recording", b.pilot().Status.Phase, "it rests until the schedule")
		})
	}
}

func (b *bench) leave(r result) {
	s := b.r.loops["general"].worker.shelf
	require.NoError(b.t, s.save(filepath.Join(jobsDir, b.memory().Job, resultFile), &r))
}

// TestNoRoomForAnOrder: a training whose order cannot be written has failed.
func TestNoRoomForAnOrder(t *testing.T) {
	b := ordersJobs(t)
	require.NoError(t, b.step())
	require.NoError(t, os.Symlink("none", filepath.Join(b.r.folder(b.pilot()), jobsDir)))
	b.training()
	require.NoError(t, b.step())
	require.Contains(t, b.told(), "failed: mkdir")
	require.Equal(t, "Recording", b.pilot().Status.Phase)
	require.Empty(t, b.jobs())
}

// TestJobCannotBeMade: the reason is in the status, and the training begins as soon as a Job can be made. Where the
// one of before still ends, it waits for that.
func TestJobCannotBeMade(t *testing.T) {
	b := ordersJobs(t)
	template := &batchv1.CronJob{}
	require.NoError(t, b.c.Get(t.Context(), types.NamespacedName{Namespace: "sigma-system", Name: v1alpha1.PilotTrainingTemplate}, template))
	require.NoError(t, b.c.Delete(t.Context(), template))
	b.training()
	say := func(what string) {
		t.Helper()
		b.now = b.now.Add(time.Minute)
		require.NoError(t, b.step())
		b.now = b.now.Add(time.Minute)
		require.NoError(t, b.step())
		require.Contains(t, strings.Join(b.pilot().Status.Reasons, "; "), what)
		require.Equal(t, "Training", b.pilot().Status.Phase)
	}
	say(`cannot be made: cronjobs.batch "sigma-pilot-training" not found`)
	require.Empty(t, b.jobs())
	template.ResourceVersion = ""
	d, err := b.r.loops["general"].worker.shelf.order(b.memory().Job)
	require.NoError(t, err)
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "sigma-system", Name: d.job(), Finalizers: []string{metav1.FinalizerDeleteDependents}}}
	require.NoError(t, b.c.Create(t.Context(), old))
	require.NoError(t, b.c.Delete(t.Context(), old))
	require.NoError(t, b.c.Create(t.Context(), template))
	say("of before is being deleted")
	require.NoError(t, b.c.Get(t.Context(), client.ObjectKeyFromObject(old), old))
	old.Finalizers = nil
	require.NoError(t, b.c.Update(t.Context(), old))
	say(" trains")
	require.Len(t, b.jobs(), 1)
}

// TestNothingEndsAJob: neither a spec that cannot be carried out nor a clock that goes back ends a Job, or removes an
// outcome that nobody has read.
func TestNothingEndsAJob(t *testing.T) {
	for name, fault := range map[string]func(*bench){
		"hold": func(b *bench) {
			o := b.pilot()
			o.Spec.Train.Schedule = "weekly"
			require.NoError(b.t, b.c.Update(b.t.Context(), o))
		},
		"the clock goes back": func(b *bench) { b.now = b.now.Add(-time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			b := ordersJobs(t)
			job := b.job()
			training := b.memory().Job
			none := result{b.order().digest, pilot.Trained{Job: training, None: "nothing is better"}}
			b.now = b.now.Add(time.Minute)
			require.NoError(t, b.step())
			b.leave(none)
			fault(b)
			require.NoError(t, b.step())
			require.Equal(t, "Training", b.pilot().Status.Phase)
			list := b.jobs()
			require.Len(t, list, 1)
			require.Equal(t, job.UID, list[0].UID)
			require.Nil(t, list[0].DeletionTimestamp)
			require.FileExists(t, filepath.Join(b.r.loops["general"].worker.shelf.jobDir(training), resultFile))
			o := b.pilot()
			o.Spec.Train.Schedule = spec().Train.Schedule
			require.NoError(t, b.c.Update(t.Context(), o))
			for range 3 {
				b.now = b.now.Add(time.Minute)
				require.NoError(t, b.step())
			}
			require.Contains(t, b.told(), none.Trained.None)
			require.Equal(t, "Recording", b.pilot().Status.Phase)
		})
	}
}

// TestHoldEndsNoTraining: what the process of the pilot trains goes on too.
func TestHoldEndsNoTraining(t *testing.T) {
	b := newBench(t)
	b.record()
	b.training()
	b.idle()
	w, training := b.r.loops["general"].worker, b.memory().Job
	w.mu.Lock()
	w.trained = nil
	w.mu.Unlock()
	ended := make(chan bool, 1)
	w.start(t.Context(), training, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			ended <- true
		case <-time.After(time.Second):
			ended <- false
		}
		return nil
	}, func(error) {})
	o := b.pilot()
	o.Spec.Train.Schedule = "weekly"
	require.NoError(t, b.c.Update(t.Context(), o))
	require.NoError(t, b.step())
	require.False(t, <-ended, "it was stopped")
}

func (b *bench) order() *order {
	b.t.Helper()
	d, err := b.r.loops["general"].worker.shelf.order(b.memory().Job)
	require.NoError(b.t, err)
	require.NotNil(b.t, d)
	return d
}

// TestOneTrainingAtATime: what a dropped training was told, and its checkpoints, stay until the pods of its Job are
// gone; a training of the same name waits for that.
func TestOneTrainingAtATime(t *testing.T) {
	b := ordersJobs(t)
	job := b.job()
	job.Finalizers = []string{metav1.FinalizerDeleteDependents} // its pod runs on
	require.NoError(t, b.c.Update(t.Context(), job))
	training := b.memory()
	s := b.r.loops["general"].worker.shelf
	require.NoError(t, os.MkdirAll(s.checkpoints(training.Job), 0o755))
	require.NoError(t, os.MkdirAll(s.checkpoints("train-of-before"), 0o755))
	remember := func(state *pilot.State) {
		t.Helper()
		text, err := json.Marshal(state)
		require.NoError(t, err)
		o := b.pilot()
		o.Status.Memory.Raw = text
		require.NoError(t, b.c.Status().Update(t.Context(), o))
	}
	dropped := training
	dropped.Phase, dropped.Job = pilot.Recording, ""
	remember(&dropped)
	require.NoError(t, b.step())
	require.NoDirExists(t, s.checkpoints("train-of-before"))
	wait := func() {
		t.Helper()
		require.NotNil(t, b.jobs()[0].DeletionTimestamp)
		require.FileExists(t, filepath.Join(s.jobDir(training.Job), orderFile))
		require.DirExists(t, s.checkpoints(training.Job))
	}
	wait()

	remember(&training)
	for range 2 {
		b.now = b.now.Add(time.Minute)
		require.NoError(t, b.step())
		wait()
	}
	require.Equal(t, "Training", b.pilot().Status.Phase)
	require.Contains(t, strings.Join(b.pilot().Status.Reasons, "; "), "the Job of a training of before, of the same name, is being deleted")
	require.NoError(t, b.c.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	job.Finalizers = nil
	require.NoError(t, b.c.Update(t.Context(), job))
	require.NoError(t, b.step())
	require.NoFileExists(t, filepath.Join(s.jobDir(training.Job), orderFile))
	require.NoError(t, b.step())
	list := b.jobs()
	require.Len(t, list, 1)
	require.NotEqual(t, job.UID, list[0].UID)

	remember(&dropped)
	for range 2 {
		require.NoError(t, b.step())
	}
	require.Empty(t, b.jobs())
	require.NoDirExists(t, s.jobDir(training.Job))
	require.NoDirExists(t, s.checkpoints(training.Job))
}
