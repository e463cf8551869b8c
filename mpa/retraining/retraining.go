// Package retraining is the contract between a recommender and the Jobs that train policies
// for it: the Job made from a template, and its result.
package retraining

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ServingVariable of a Job's containers has the file of the policy that serves.
	ServingVariable = "SIGMA_SERVING_POLICY"
	// ObjectAnnotation of Jobs and policies names the object that they are for,
	// namespace/name.
	ObjectAnnotation = "autoscaling.sigma-scheduler.io/retrained-for"
	// Label of Jobs and policies, with the value "true".
	Label = "autoscaling.sigma-scheduler.io/retrained"
	// mostSeconds bound a Job whose template has no bound.
	mostSeconds = 2 * 60 * 60
)

// A Request names the object for which a policy is to be trained.
type Request struct {
	Object types.NamespacedName
	UID    types.UID
	// Alarm is the time at which the change of the object's workload was detected.
	Alarm time.Time
	// Policy is the name in the object's spec, Serving the file of the policy that serves.
	Policy  string
	Serving []byte
}

// Name of the Job. It is the same for the same alarm, so that no second one is made.
func (q *Request) Name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", q.UID, q.Alarm.UnixMicro()))
	return fmt.Sprintf("sigma-mpa-retraining-%x", sum[:5])
}

// Job makes the Job of a template, of whose pods the first container runs sigma mpa retrain.
func (q *Request) Job(template *batchv1.CronJob) (*batchv1.Job, error) {
	from := template.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: template.Namespace, Name: q.Name(), Labels: from.Labels, Annotations: from.Annotations,
	}, Spec: from.Spec}
	metav1.SetMetaDataLabel(&job.ObjectMeta, Label, "true")
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, ObjectAnnotation, q.Object.String())
	if job.Spec.ActiveDeadlineSeconds == nil {
		job.Spec.ActiveDeadlineSeconds = new(int64(mostSeconds))
	}
	containers := job.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return nil, fmt.Errorf("CronJob %s/%s has no container", template.Namespace, template.Name)
	}
	c := &containers[0]
	c.Args = append(c.Args, "--object="+q.Object.String(), "--uid="+string(q.UID), "--policy="+q.Policy)
	c.Env = append(c.Env, corev1.EnvVar{Name: ServingVariable, Value: escaped(q.Serving)})
	return job, nil
}

// escaped keeps the kubelet from replacing $(NAME) in a variable.
func escaped(data []byte) string { return strings.ReplaceAll(string(data), "$", "$$") }

// A Result is the outcome of a training, as JSON in the termination message of its container.
type Result struct {
	// Policy is the ScalingPolicy that it has created; empty = the best one found is not
	// better than the one that serves.
	Policy string `json:"policy,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Pieces of the journal on which both were judged: their costs ÷ that of hpa+vpa, and the
	// number of pieces on which the promise was kept.
	Pieces     int     `json:"pieces"`
	FoundCost  float64 `json:"foundCost"`
	ServesCost float64 `json:"servesCost"`
	FoundKept  int     `json:"foundKept"`
	ServesKept int     `json:"servesKept"`
}

// String returns the figures.
func (r *Result) String() string {
	return fmt.Sprintf("on %d pieces of the journal it costs %.3f of hpa+vpa and keeps the promise in %d, what serves costs %.3f and keeps it in %d",
		r.Pieces, r.FoundCost, r.FoundKept, r.ServesCost, r.ServesKept)
}

func parse(text string) (*Result, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	r := &Result{}
	switch err := d.Decode(r); {
	case err != nil:
		return nil, fmt.Errorf("what it says is no result: %w", err)
	case d.More():
		return nil, errors.New("what it says is more than a result")
	case r.Pieces < 1 || (r.Policy == "") != (r.Digest == ""):
		return nil, errors.New("what it says is no result: want pieces, and both policy and digest or neither")
	}
	return r, nil
}

// ErrTimedOut means that a Job was ended because it took too long.
var ErrTimedOut = errors.New("it took too long")

// End returns the result of a Job that has ended, or the reason that it has none; neither =
// it runs.
func End(job *batchv1.Job, pods []corev1.Pod) (*Result, error) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == batchv1.JobComplete:
			for i := range pods {
				if text, code, ok := last(&pods[i]); ok && code == 0 {
					return parse(text)
				}
			}
			return nil, errors.New("its pod is gone, and what it said with it")
		case c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonDeadlineExceeded:
			return nil, fmt.Errorf("%w: %s", ErrTimedOut, c.Message)
		case c.Type == batchv1.JobFailed:
			for i := range pods {
				if text, code, ok := last(&pods[i]); ok && code != 0 && text != "" {
					return nil, fmt.Errorf("%s: %s", c.Reason, strings.TrimSpace(text))
				}
			}
			return nil, fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return nil, nil
}

// last returns the termination message of the first container of a pod, and its exit code.
func last(p *corev1.Pod) (text string, code int32, ok bool) {
	if len(p.Status.ContainerStatuses) == 0 {
		return "", 0, false
	}
	s := &p.Status.ContainerStatuses[0]
	end := s.State.Terminated
	end = cmp.Or(end, s.LastTerminationState.Terminated)
	if end == nil {
		return "", 0, false
	}
	return end.Message, end.ExitCode, true
}
