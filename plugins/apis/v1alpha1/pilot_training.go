package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// PilotTrainingTemplate names the CronJob, in the namespace of sigma-pilot, that is the template of training
// Jobs. It is suspended. PilotTrainingAnnotation of a pod names the training.
const (
	PilotTrainingTemplate   = "sigma-pilot-training"
	PilotTrainingAnnotation = GroupName + "/training"
)

// PilotTraining holds the schedule and the data of trainings.
//
// +kubebuilder:validation:XValidation:fieldPath=".history",rule="!has(self.history) || !has(self.validate) || !has(self.test) || self.validate + self.test < self.history",message="no day is left to train on: want more than validate and test together"
type PilotTraining struct {
	// The schedule of trainings, as in crontab, in UTC.
	// +optional
	// +kubebuilder:default="0 3 * * 0"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule,omitempty"`

	// The most days that are used, whole ones of UTC. Of them the newest judge, and those before
	// choose among the trained policies.
	// +optional
	// +kubebuilder:default=28
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=366
	History int32 `json:"history,omitempty"`

	// Number of days that choose among the trained policies.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=90
	Validate int32 `json:"validate,omitempty"`

	// Number of days that judge the candidate. Each is used once.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=90
	Test int32 `json:"test,omitempty"`

	// Replays of each training.
	// +optional
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000000
	Evaluations int32 `json:"evaluations,omitempty"`

	// Trainings of each method, with other seeds.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Seeds int32 `json:"seeds,omitempty"`

	// The longest time of a training, 1m to 168h.
	// +optional
	// +kubebuilder:default="12h"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="want 1m to 168h"
	Within string `json:"within,omitempty"`

	// The longest time of a judgement, 1m to 168h.
	// +optional
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="want 1m to 168h"
	JudgeWithin string `json:"judgeWithin,omitempty"`

	// Each training is a Job of its own. Without it trainings run in the process of sigma-pilot, on one core.
	// +optional
	Job *PilotJob `json:"job,omitempty"`
}

// PilotJob holds the resources of a training's pod. The CronJob PilotTrainingTemplate has the rest of the pod.
type PilotJob struct {
	// Replays at the same time, and the cores that the pod requests. The result does not depend on it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Cores int32 `json:"cores,omitempty"`

	// The memory request and limit of the pod.
	// +optional
	// +kubebuilder:default="2Gi"
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('128Mi'))",message="want 128Mi or more"
	Memory *resource.Quantity `json:"memory,omitempty"`
}
