package control

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

const (
	// jobsDir has a folder for each training that a Job runs, next to the checkpoints.
	jobsDir = "jobs"
	// daysDir of such a folder has the days of the order: the record may remove its own.
	daysDir = "days"
	// Files of such a folder.
	orderFile  = "order.json"
	madeFile   = "made.json"   // the UID of the Job, once it was made
	resultFile = "result.json" // by the Job
	overFile   = "over.json"   // since nobody waits for the Job: it is being deleted
	// shownWithin is the time until a file written on one node must be visible on another.
	shownWithin = time.Minute
	// jobPrefix begins the names of the pilot's Jobs: it may delete no others.
	jobPrefix = "sigma-pilot-train-"
)

// An order is a lesson for a Job.
type order struct {
	Pilot  string            `json:"pilot"` // the folder of its shelf
	Lesson lesson            `json:"lesson"`
	Cores  int32             `json:"cores"`
	Memory resource.Quantity `json:"memory"`
	Within time.Duration     `json:"within"`

	digest string // of the file
}

// A result is written by a Job when it ends.
type result struct {
	Order   string        `json:"order"` // digest
	Trained pilot.Trained `json:"trained"`
}

func (d *order) job() string {
	return jobPrefix + strings.TrimPrefix(d.Lesson.Job, "train-") + "-" + d.digest[:10]
}

func (s shelf) jobDir(training string) string { return filepath.Join(s.dir, jobsDir, training) }

// write keeps the order for a lesson.
func (s shelf) write(l *lesson, spec *v1alpha1.PilotTraining) (*order, error) {
	within, err := time.ParseDuration(spec.Within)
	if err != nil {
		return nil, err
	}
	if spec.Job.Memory == nil {
		return nil, errors.New("train.job.memory is missing")
	}
	l.Workers = int(spec.Job.Cores)
	days := filepath.Join(s.jobDir(l.Job), daysDir)
	if err := os.RemoveAll(days); err != nil { // of an order that was not written to its end
		return nil, err
	}
	if err := os.MkdirAll(days, 0o755); err != nil {
		return nil, err
	}
	for i, name := range l.Window.Files {
		if err := take(name, filepath.Join(days, filepath.Base(name))); err != nil {
			return nil, err
		}
		l.Window.Files[i] = filepath.Join(jobsDir, l.Job, daysDir, filepath.Base(name))
	}
	d := &order{Pilot: filepath.Base(s.dir), Lesson: *l, Cores: spec.Job.Cores, Memory: *spec.Job.Memory, Within: within}
	if err := s.save(filepath.Join(jobsDir, l.Job, orderFile), d); err != nil {
		return nil, err
	}
	return s.order(l.Job)
}

// take gives a file a second name that outlasts the first. If the volume has no links, the file is copied.
func take(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	err = durable.WriteFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, file)
		return err
	})
	return errors.Join(err, file.Close())
}

// order reads the order of a training; nil = there is none.
func (s shelf) order(training string) (*order, error) {
	file := filepath.Join(s.jobDir(training), orderFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &order{digest: fmt.Sprintf("%x", sha256.Sum256(text))}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.Lesson.Job != training || d.Pilot != filepath.Base(s.dir) {
		return nil, fmt.Errorf("%s is the order for another training: %s of %s", file, d.Lesson.Job, d.Pilot)
	}
	return d, nil
}

// result reads the result of an order's Job; nil = there is none yet.
func (s shelf) result(d *order) (*pilot.Trained, error) {
	var r *result
	if err := s.load(filepath.Join(jobsDir, d.Lesson.Job, resultFile), &r); err != nil || r == nil {
		return nil, err
	}
	if r.Order != d.digest || r.Trained.Job != d.Lesson.Job {
		return nil, fmt.Errorf("the result is of another order: %s", r.Order)
	}
	if r.Trained.Candidate != "" {
		if _, err := s.policy(r.Trained.Candidate); err != nil {
			return nil, err
		}
	}
	return &r.Trained, nil
}

// Learn carries out a training that a pilot ordered: FOLDER/TRAINING below the folder of its state. It writes
// the result there. After a kill it resumes from the checkpoint; a finished training is not repeated.
func Learn(ctx context.Context, state, training string) error {
	folder, name, ok := strings.Cut(training, "/")
	if !ok || name == "" || !filepath.IsLocal(folder) || strings.Contains(name, "/") || !filepath.IsLocal(name) {
		return fmt.Errorf("the training %q: want FOLDER/TRAINING", training)
	}
	s := shelf{filepath.Join(state, folder)}
	d, err := s.order(name)
	switch {
	case err != nil:
		return err
	case d == nil:
		return fmt.Errorf("%s: there is no order", s.jobDir(name))
	}
	if done, err := s.result(d); err == nil && done != nil {
		return nil
	}
	for i, file := range d.Lesson.Window.Files {
		d.Lesson.Window.Files[i] = filepath.Join(s.dir, file)
	}
	out, err := func() (out *pilot.Trained, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		return s.learn(ctx, &d.Lesson)
	}()
	if ctx.Err() != nil {
		return ctx.Err() // the next pod continues
	}
	if err != nil {
		out = &pilot.Trained{Job: name, Failed: err.Error()}
	}
	return s.save(filepath.Join(jobsDir, name, resultFile), &result{d.digest, *out})
}

// follows checks the state of the Job of an order, and makes the Job if there never was one.
func (r *reconciler) follows(ctx context.Context, o *v1alpha1.PolicyPilot, w *worker, d *order) {
	out, waits := r.lookAt(ctx, o, w.shelf, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = waits
	if out != nil {
		w.taught(out)
	}
}

// lookAt returns the outcome of an order's training, or the reason why it waits.
func (r *reconciler) lookAt(ctx context.Context, o *v1alpha1.PolicyPilot, s shelf, d *order) (out *pilot.Trained, waits string) {
	failed := func(format string, args ...any) (*pilot.Trained, string) {
		return &pilot.Trained{Job: d.Lesson.Job, Failed: fmt.Sprintf(format, args...)}, ""
	}
	job := &batchv1.Job{}
	key := types.NamespacedName{Namespace: r.Namespace, Name: d.job()}
	there := r.live.Get(ctx, key, job)
	if there != nil && !apierrors.IsNotFound(there) {
		return nil, fmt.Sprintf("the state of the Job %s is not known: %v", key, there)
	}
	// After the Job: the Job writes its result before it ends.
	if out, err := s.result(d); err != nil {
		return failed("the Job %s: %v", key, err)
	} else if out != nil {
		return out, ""
	}
	made := filepath.Join(jobsDir, d.Lesson.Job, madeFile)
	var uid types.UID
	if err := s.load(made, &uid); err != nil {
		return failed("%v", err)
	}
	switch end := ended(job); {
	case there != nil && uid != "":
		return failed("the Job %s is gone, and left no result", key)
	case there != nil:
		if err := r.make(ctx, o, d, job); err != nil {
			return nil, fmt.Sprintf("the Job %s cannot be made: %v", key, err)
		}
		uid = "" // it is kept below
	case uid == "" && job.DeletionTimestamp != nil:
		return nil, fmt.Sprintf("the Job %s of before is being deleted", key)
	case uid != "" && uid != job.UID:
		return failed("the Job %s was deleted, and another one has its name", key)
	case job.DeletionTimestamp != nil:
		return failed("the Job %s is being deleted, and left no result", key)
	case end != nil && end.Type == batchv1.JobFailed:
		return failed("the Job %s failed: %s: %s", key, end.Reason, end.Message)
	case end != nil && r.now().Sub(end.LastTransitionTime.Time) > shownWithin:
		return failed("the Job %s succeeded, and left no result", key)
	}
	if uid == "" {
		if err := s.save(made, job.UID); err != nil {
			return nil, fmt.Sprintf("the Job %s trains, and that cannot be noted: %v", key, err)
		}
	}
	return nil, fmt.Sprintf("the Job %s trains", key)
}

// waiting is the reason why the Job of a training waits; "" = there is none.
func (w *worker) waiting() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits
}

// ended is the condition with the end of a Job; nil = it has not ended.
func ended(job *batchv1.Job) *batchv1.JobCondition {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobFailed || c.Type == batchv1.JobComplete)
	})
	if i < 0 {
		return nil
	}
	return &job.Status.Conditions[i]
}

// make makes the Job of an order from the template. The PolicyPilot owns it.
func (r *reconciler) make(ctx context.Context, o *v1alpha1.PolicyPilot, d *order, job *batchv1.Job) error {
	template := &batchv1.CronJob{}
	if err := r.live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: v1alpha1.PilotTrainingTemplate}, template); err != nil {
		return err
	}
	from := template.Spec.JobTemplate.DeepCopy()
	*job = batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: d.job(), Labels: from.Labels, Annotations: from.Annotations}, Spec: from.Spec}
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PolicyPilot", Name: o.Name, UID: o.UID}}
	job.Spec.ActiveDeadlineSeconds = new(int64(d.Within.Seconds()))
	pod := &job.Spec.Template
	if len(pod.Spec.Containers) != 1 {
		return fmt.Errorf("the CronJob %s has %d containers, want one", template.Name, len(pod.Spec.Containers))
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.PilotTrainingAnnotation, d.Pilot+"/"+d.Lesson.Job)
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(d.Cores), resource.DecimalSI), corev1.ResourceMemory: d.Memory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: d.Memory},
	}
	return r.client.Create(ctx, job, client.FieldOwner(owner))
}

// over reports whether the loop no longer waits for a training, whose Job may still exist.
func (s shelf) over(training string) bool {
	_, err := os.Stat(filepath.Join(s.jobDir(training), overFile))
	return err == nil
}

// endJobs deletes the Jobs of trainings that the loop no longer waits for. A Job stays until its pods are deleted,
// and so do its order and its result: two Jobs never run for one training.
func (r *reconciler) endJobs(ctx context.Context, l *loop, training string) error {
	s := l.worker.shelf
	entries, err := os.ReadDir(filepath.Join(s.dir, jobsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == training && !s.over(training) {
			continue
		}
		if d, err := s.order(e.Name()); err == nil && d != nil { // else no Job was made of it, or none can be found
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: d.job()}}
			err := r.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))
			if err == nil {
				err = r.live.Get(ctx, client.ObjectKeyFromObject(job), job)
			}
			if err == nil {
				if err := s.save(filepath.Join(jobsDir, e.Name(), overFile), true); err != nil {
					return err
				}
				continue
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err := os.RemoveAll(s.jobDir(e.Name())); err != nil {
			return err
		}
	}
	return nil
}
