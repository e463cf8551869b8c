package recommender

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/retraining"
)

// A trainer is a world with a template for Jobs, and stands for what runs them.
type trainer struct{ *world }

func newTrainer(t *testing.T) trainer {
	t.Helper()
	w := trainer{newWorld(t, beginsIn("Serving"))}
	w.options.Namespace, w.options.RetrainingTemplate = "sigma-mpa", "retraining"
	w.options.JournalDir = t.TempDir()
	template := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "sigma-mpa", Name: "retraining"}}
	template.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer", Image: "sigma", Args: []string{"mpa", "retrain"}}}
	require.NoError(t, w.Create(t.Context(), template))
	require.NoError(t, w.Create(t.Context(), general("a")))
	w.step(15 * time.Second)
	return w
}

// alarm has the agent see that the workload has changed.
func (w trainer) alarm(what string) {
	s := w.objects[key]
	s.journaled.session.Alarm = journal.Alarm{Time: w.clock.Now(), Drift: what, Digest: s.journaled.session.Setup().Agent.Digest}
}

func (w trainer) jobs() []batchv1.Job {
	w.t.Helper()
	list := &batchv1.JobList{}
	require.NoError(w.t, w.List(w.t.Context(), list, client.InNamespace("sigma-mpa")))
	return list.Items
}

// ends ends a Job, whose pod says something.
func (w trainer) ends(job *batchv1.Job, condition batchv1.JobConditionType, reason string, code int32, says string) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, Labels: map[string]string{batchv1.JobNameLabel: job.Name}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: says}}}}
	require.NoError(w.t, w.Create(w.t.Context(), pod))
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: reason, Message: "of the Job"}}
	if condition == batchv1.JobComplete {
		job.Status.CompletionTime = new(metav1.NewTime(w.clock.Now()))
	}
	require.NoError(w.t, w.Status().Update(w.t.Context(), job))
}

// trained creates the policy that a Job would, and returns what it would say.
func (w trainer) trained(name, replaces string, betaFirst float64) string {
	w.t.Helper()
	o := general("")
	o.Name, o.UID, o.CreationTimestamp = name, "", metav1.NewTime(w.clock.Now())
	o.Labels = map[string]string{retraining.Label: "true"}
	o.Annotations = map[string]string{retraining.ObjectAnnotation: key.String()}
	o.Spec.Numbers["betaFirst"] = betaFirst
	o.Spec.Provenance = &v1alpha1.ScalingProvenance{ReplacesDigest: replaces, Pieces: 2}
	require.NoError(w.t, w.Create(w.t.Context(), o))
	digest := ""
	if p, _, err := policyOf(o); err == nil {
		digest = p.Digest
	}
	return says(w.t, &retraining.Result{Policy: name, Digest: digest, Pieces: 2, FoundCost: .7, ServesCost: .8, FoundKept: 2, ServesKept: 2})
}

func says(t *testing.T, r *retraining.Result) string {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return string(text)
}

func requireRetraining(t *testing.T, o *v1alpha1.MultidimPodAutoscaler, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c := condition(&o.Status, v1alpha1.ConditionRetraining)
	require.Equal(t, reason, c.Reason, c.Message)
	require.Equal(t, status, c.Status)
	require.Contains(t, c.Message, message)
}

// run lets a Job begin for an alarm and returns it.
func (w trainer) run(what string) *batchv1.Job {
	w.t.Helper()
	before := len(w.jobs())
	w.alarm(what)
	requireRetraining(w.t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", what)
	w.step(w.options.RetrainingAfter + w.options.RetrainingCoolDown)
	jobs := w.jobs()
	require.Len(w.t, jobs, before+1)
	name := w.read().Status.Retraining.Job
	requireRetraining(w.t, w.read(), metav1.ConditionTrue, "Running", name)
	for i := range jobs {
		if jobs[i].Name == name {
			return &jobs[i]
		}
	}
	require.Fail(w.t, "no Job "+name)
	return nil
}

// Without a template the condition says what to run, from an alarm on until another policy
// serves, also where the fallback decided in between.
func TestRetrainingByHand(t *testing.T) {
	w := newTrainer(t)
	w.options.RetrainingTemplate = ""
	requireRetraining(t, w.read(), metav1.ConditionFalse, "NoChange", "")
	w.alarm("cpu per request is higher")
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", "cpu per request is higher; sigma mpa train --journal")
	requireRetraining(t, w.step(48*time.Hour), metav1.ConditionTrue, "WorkloadChanged", "cpu per request is higher")
	require.Empty(t, w.jobs())

	require.NoError(t, w.Delete(t.Context(), general("a")))
	w.restart()
	o := w.step(15 * time.Second)
	require.Equal(t, v1alpha1.PhaseFallback, o.Status.Phase)
	requireRetraining(t, o, metav1.ConditionFalse, "NoPolicy", "The fallback decides")
	// The same policy still knows nothing of the change.
	require.NoError(t, w.Create(t.Context(), general("a")))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", "cpu per request is higher")
	require.NoError(t, w.Delete(t.Context(), general("a")))
	w.restart()
	w.step(15 * time.Second)
	other := general("b")
	other.Spec.Numbers["betaFirst"] = .75
	require.NoError(t, w.Create(t.Context(), other))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "PolicyChanged", "")
	w.alarm("latency is higher")
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", "latency is higher")

	o = w.read()
	o.Spec.Recommender.Algorithm = "predictive"
	o.Generation++
	require.NoError(t, w.Update(t.Context(), o))
	require.Empty(t, condition(&w.step(15*time.Second).Status, v1alpha1.ConditionRetraining).Type)
}

// A Job begins some hours after an alarm. The policy that it writes takes the place of the
// spec's in the shadow of the rules, whatever phase the spec begins in, until it is deleted, or
// the spec's policy changes.
func TestRetrainingTaken(t *testing.T) {
	w := newTrainer(t)
	serves := w.read().Status.Decision.PolicyDigest
	w.alarm("cpu per request is higher")
	o := w.step(15 * time.Second)
	requireRetraining(t, o, metav1.ConditionTrue, "WorkloadChanged", "a Job trains a policy from")
	w.step(5 * time.Hour)
	require.Empty(t, w.jobs())
	w.step(time.Hour)
	jobs := w.jobs()
	require.Len(t, jobs, 1)
	c := jobs[0].Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"mpa", "retrain", "--object=shop/web", "--uid=mpa", "--policy=general"}, c.Args)
	p, err := learned.Parse("", []byte(c.Env[0].Value))
	require.NoError(t, err)
	require.Equal(t, serves, p.Digest)
	requireRetraining(t, w.step(time.Hour), metav1.ConditionTrue, "Running", jobs[0].Name)
	require.Len(t, w.jobs(), 1)

	w.ends(&jobs[0], batchv1.JobComplete, "", 0, w.trained("general-1", serves, .75))
	o = w.step(15 * time.Second)
	requireRetraining(t, o, metav1.ConditionFalse, "Taken", "ScalingPolicy general-1: on 2 pieces of the journal it costs 0.700 of hpa+vpa")
	o = w.step(15 * time.Second)
	requirePhase(t, o, "OfflineTraining")
	require.NotEqual(t, serves, o.Status.Decision.PolicyDigest)
	taken := o.Status.Decision.PolicyDigest
	require.Equal(t, taken, o.Status.Retraining.Candidate.Digest)
	w.restart()
	o = w.step(15 * time.Second)
	require.Equal(t, taken, o.Status.Decision.PolicyDigest)
	requirePhase(t, o, "OfflineTraining")

	// Of a further alarm another Job begins after the cool-down, from what serves then.
	second := w.run("latency is higher")
	require.NotEqual(t, jobs[0].Name, second.Name)
	w.ends(second, batchv1.JobComplete, "", 0, w.trained("general-2", taken, .8))
	w.step(15 * time.Second)
	o = w.step(15 * time.Second)
	require.Equal(t, "general-2", o.Status.Retraining.Candidate.Policy)
	require.NoError(t, w.Delete(t.Context(), &v1alpha1.ScalingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "general-2"}}))
	o = w.step(15 * time.Second)
	require.Equal(t, serves, o.Status.Decision.PolicyDigest)
	require.Nil(t, o.Status.Retraining.Candidate)
	requireRetraining(t, o, metav1.ConditionFalse, "PolicyChanged", "")
}

// Of the policies that Jobs have written for an object the newest three stay, and those that an object names or uses;
// nobody else's policy is deleted.
func TestRetrainingTidies(t *testing.T) {
	taken := testutil.ToFloat64(retrainings.WithLabelValues(key.Namespace, key.Name, "Taken"))
	w := newTrainer(t)
	w.trained("named", "", .61)
	other := w.read().DeepCopy()
	other.Name, other.UID, other.ResourceVersion, other.Status = "other", "other", "", v1alpha1.MultidimPodAutoscalerStatus{}
	other.Spec.ScaleTargetRef.Name = "other"
	other.Spec.Recommender.Name, other.Spec.Recommender.Policy = "somebody", "named"
	require.NoError(t, w.Create(t.Context(), other))
	foreign := general("")
	foreign.Name, foreign.UID = "of-somebody", ""
	foreign.Labels = map[string]string{retraining.Label: "true"}
	foreign.Annotations = map[string]string{retraining.ObjectAnnotation: "shop/other"}
	require.NoError(t, w.Create(t.Context(), foreign))
	for i := range 5 {
		serves := w.read().Status.Decision.PolicyDigest
		w.ends(w.run(fmt.Sprint("change ", i)), batchv1.JobComplete, "", 0, w.trained(fmt.Sprint("general-", i), serves, .65+.01*float64(i)))
		w.step(15 * time.Second)
		w.step(15 * time.Second)
	}
	list := &v1alpha1.ScalingPolicyList{}
	require.NoError(t, w.List(t.Context(), list))
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	require.ElementsMatch(t, []string{"general", "named", "of-somebody", "general-2", "general-3", "general-4"}, names)
	require.Equal(t, "general-4", w.read().Status.Retraining.Candidate.Policy)
	require.EqualValues(t, 5, testutil.ToFloat64(retrainings.WithLabelValues(key.Namespace, key.Name, "Taken"))-taken)
}

// A candidate that the phases find worse than the rules is taken back, and the spec's policy
// decides.
func TestRetrainingTakenBack(t *testing.T) {
	w := newTrainer(t)
	counted := func() float64 {
		return testutil.ToFloat64(retrainings.WithLabelValues(key.Namespace, key.Name, outcomeTakenBack))
	}
	before := counted()
	serves := w.read().Status.Decision.PolicyDigest
	w.ends(w.run("cpu per request is higher"), batchv1.JobComplete, "", 0, w.trained("general-1", serves, .75))
	w.step(15 * time.Second)
	w.step(15 * time.Second)
	verdict := progressOf(&v1alpha1.LearningStatus{Phase: "OfflineTraining", Judged: new(micro(w.clock.Now())), Rules: "1.000", Policy: "1.300", Runs: 3})
	require.NoError(t, w.objects[key].journaled.session.Place(verdict))
	w.step(15 * time.Second)
	o := w.step(15 * time.Second)
	requireRetraining(t, o, metav1.ConditionFalse, "TakenBack", "ScalingPolicy general-1: ")
	require.Equal(t, serves, o.Status.Decision.PolicyDigest)
	require.Nil(t, o.Status.Retraining.Candidate)
	w.restart()
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "TakenBack", "")
	require.EqualValues(t, 1, counted()-before)
}

// However a Job ends, what serves goes on, and the condition says why.
func TestRetrainingNotTaken(t *testing.T) {
	better := &retraining.Result{Policy: "general", Digest: "sha256:1", Pieces: 2}
	for name, tt := range map[string]struct {
		end             func(w trainer, job *batchv1.Job, serves string)
		reason, message string
	}{
		"not better": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobComplete, "", 0, says(t, &retraining.Result{Pieces: 2, FoundCost: .9, ServesCost: .8}))
		}, "NotBetter", "on 2 pieces of the journal it costs 0.900"},
		"fails": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobFailed, "BackoffLimitExceeded", 1, "sigma: no journal\n")
		}, "Failed", "BackoffLimitExceeded: sigma: no journal"},
		"never ends": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, 137, "")
		}, "TimedOut", "it took too long"},
		"says garbage": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobComplete, "", 0, "\x00garbage")
		}, "Failed", "no result"},
		"says nothing": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobComplete, "", 0, "")
		}, "Failed", "no result"},
		"is deleted": {func(w trainer, job *batchv1.Job, _ string) {
			require.NoError(t, w.Delete(t.Context(), job))
		}, "Failed", "the Job is gone"},
		"names what it did not write": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobComplete, "", 0, says(t, better))
		}, "Failed", "ScalingPolicy general is sha256:"},
		"writes numbers outside their boxes": {func(w trainer, job *batchv1.Job, serves string) {
			w.trained("general-1", serves, 99)
			w.ends(job, batchv1.JobComplete, "", 0, says(t, &retraining.Result{Policy: "general-1", Digest: "sha256:1", Pieces: 2}))
		}, "Failed", "spec.numbers.betaFirst: 99 is not within"},
		"compared with another": {func(w trainer, job *batchv1.Job, _ string) {
			w.ends(job, batchv1.JobComplete, "", 0, w.trained("general-1", "sha256:other", .75))
		}, "Failed", "was compared with sha256:other"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTrainer(t)
			serves := w.read().Status.Decision.PolicyDigest
			tt.end(w, w.run("cpu per request is higher"), serves)
			for range 3 {
				o := w.step(15 * time.Second)
				requireRetraining(t, o, metav1.ConditionFalse, tt.reason, tt.message)
				require.Equal(t, serves, o.Status.Decision.PolicyDigest)
				require.Equal(t, "Serving", o.Status.Learning.Phase)
				w.restart()
			}
			require.LessOrEqual(t, len(w.jobs()), 1)
			w.step(15 * time.Second)
			w.run("cpu per request is lower") // the next alarm has a Job of its own
		})
	}
}

// A policy that the cache does not show yet is waited for.
func TestRetrainingBehind(t *testing.T) {
	w := newTrainer(t)
	serves := w.read().Status.Decision.PolicyDigest
	job := w.run("cpu per request is higher")
	text := w.trained("general-1", serves, .75)
	gone := &v1alpha1.ScalingPolicy{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "general-1"}, gone))
	require.NoError(t, w.Delete(t.Context(), gone))
	w.ends(job, batchv1.JobComplete, "", 0, text)
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "Running", "")
	gone.ResourceVersion = ""
	require.NoError(t, w.Create(t.Context(), gone))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "Taken", "general-1")
}

// The alarm outlives a write that fails, and a process that ends before it is written; one that
// ends before the Job or after it makes no second Job.
func TestRetrainingKilled(t *testing.T) {
	w := newTrainer(t)
	w.alarm("cpu per request is higher")
	w.patch = func(func() error) error { return errors.New("away") }
	w.clock.SetTime(w.objects[key].slot.next)
	w.usage.at = w.clock.Now()
	w.reconcile()
	assert.Nil(t, w.read().Status.Retraining)
	w.patch = func(next func() error) error { return next() }
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", "")
	w.restart()
	// The Job is made, and the status that says so is not written.
	w.patch = func(func() error) error { return errors.New("away") }
	w.step(w.options.RetrainingAfter)
	require.Len(t, w.jobs(), 1)
	assert.Empty(t, w.read().Status.Retraining.Job)
	w.restart()
	w.patch = func(next func() error) error { return next() }
	for range 3 {
		o := w.step(15 * time.Second)
		requireRetraining(t, o, metav1.ConditionTrue, "Running", w.jobs()[0].Name)
		require.Len(t, w.jobs(), 1)
		w.restart()
	}
}

// While no policy is there the end of a Job waits: what it found is compared with the one that
// comes back.
func TestRetrainingWithoutPolicy(t *testing.T) {
	w := newTrainer(t)
	serves := w.read().Status.Decision.PolicyDigest
	job := w.run("cpu per request is higher")
	require.NoError(t, w.Delete(t.Context(), general("a")))
	w.restart()
	w.ends(job, batchv1.JobComplete, "", 0, w.trained("general-1", serves, .75))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "Running", job.Name)
	require.NoError(t, w.Create(t.Context(), general("a")))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "Taken", "general-1")

	w = newTrainer(t) // without an alarm
	require.NoError(t, w.Delete(t.Context(), general("a")))
	w.restart()
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "NoPolicy", "")
	require.NoError(t, w.Create(t.Context(), general("a")))
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionFalse, "NoChange", "")
}

// Further alarms while a Job runs wait for its end and the cool-down.
func TestRetrainingAgain(t *testing.T) {
	w := newTrainer(t)
	job := w.run("cpu per request is higher")
	w.alarm("latency is higher")
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "Running", job.Name)
	w.ends(job, batchv1.JobFailed, "BackoffLimitExceeded", 1, "")
	requireRetraining(t, w.step(15*time.Second), metav1.ConditionTrue, "WorkloadChanged", "latency is higher; a Job trains a policy from")
	w.step(23 * time.Hour)
	require.Len(t, w.jobs(), 1)
	w.step(time.Hour)
	require.Len(t, w.jobs(), 2)
}

// A Job that cannot be made is tried again, not at every decision.
func TestRetrainingRefused(t *testing.T) {
	w := newTrainer(t)
	template := &batchv1.CronJob{}
	at := client.ObjectKey{Namespace: "sigma-mpa", Name: "retraining"}
	require.NoError(t, w.Get(t.Context(), at, template))
	require.NoError(t, w.Delete(t.Context(), template))
	w.alarm("cpu per request is higher")
	w.step(15 * time.Second)
	requireRetraining(t, w.step(w.options.RetrainingAfter), metav1.ConditionTrue, "NoJob", `"retraining" not found`)
	template.ResourceVersion = ""
	require.NoError(t, w.Create(t.Context(), template))
	w.step(15 * time.Second)
	require.Empty(t, w.jobs())
	w.step(jobRetry)
	require.Len(t, w.jobs(), 1)
	requireRetraining(t, w.read(), metav1.ConditionTrue, "Running", "")
}

// Not more Jobs run at once than are allowed.
func TestRetrainingRoom(t *testing.T) {
	w := newTrainer(t)
	w.options.RetrainingJobs = 1
	other := web()
	other.Name, other.UID, other.Spec.ScaleTargetRef.Name = "other", "other", "other"
	other.Status.Retraining = &v1alpha1.RetrainingStatus{Job: "running", Started: new(micro(w.clock.Now()))}
	require.NoError(t, w.Create(t.Context(), other))
	w.alarm("cpu per request is higher")
	w.step(15 * time.Second)
	requireRetraining(t, w.step(w.options.RetrainingAfter), metav1.ConditionTrue, "NoJob", "no Job can be made yet: 1 Jobs of other objects run")
	require.Empty(t, w.jobs())
	other.Status.Retraining.Ended = new(micro(w.clock.Now()))
	require.NoError(t, w.Status().Update(t.Context(), other))
	w.step(jobRetry)
	require.Len(t, w.jobs(), 1)
	require.ErrorContains(t, w.room(t.Context(), "shop", "next", w.clock.Now()), "1 Jobs of other objects run")
	require.NoError(t, w.room(t.Context(), "shop", w.jobs()[0].Name, w.clock.Now()))
}
