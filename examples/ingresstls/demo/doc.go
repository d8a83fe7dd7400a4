// SPDX-License-Identifier: Apache-2.0

// Package demo runs an API server, the controller and an HTTPS server in one process through a fixed scenario, and
// checks what clients get.
//
// A step is an action on the API server, and what clients of some hosts must get after it. A check is repeated whenever
// the certificates may have changed, and every 20 ms. The time printed with a check runs from before the action to the
// moment when the check succeeded.
//
// The API server allows the controller to list and watch Ingresses, and what the generated Roles allow. The User-Agent
// distinguishes the controller from kubectl.
package demo
