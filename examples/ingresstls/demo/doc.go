// SPDX-License-Identifier: Apache-2.0

// Package demo runs an API server, the controller and an HTTPS server in one process through a fixed scenario, and
// checks what clients get.
//
// A step is an action on the API server, and what clients of some hosts must get after it. Nothing sleeps: a check is
// repeated whenever the certificates may have changed. The time printed with a check runs from before the action to the
// moment when the check succeeded.
//
// The API server allows the controller to list and watch Ingresses, and what the generated Roles allow. It tells the
// controller from kubectl by the User-Agent.
package demo
