// The light build has no declarations of its own: it has the whole one's.
declare module "hls.js/light" {
  export * from "hls.js";
  export { default } from "hls.js";
}
