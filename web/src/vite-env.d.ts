/// <reference types="vite/client" />

declare module "viewer.wasm?url" {
  const url: string;
  export default url;
}
